"""Names as users write them, in files, searches, addresses and pages."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.store import show_snapshot
from portfolio_dfl.errors import ConfigError, TrackingError
from portfolio_dfl.report import holdings
from portfolio_dfl.tracking.mlflow_store import open_store, tracked_run

NAMES = ["/team/exp", "../../up", "a b", "it's", 'q"x', "100 % #1?", "a;b&c=d", "Größe 研究", "x" * 500, "<b>bold</b>"]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store without records: making one takes seconds."""
    root = tmp_path_factory.mktemp("fresh")
    open_store(root, experiment="none")
    return (root / "mlflow.db").read_bytes()


def test_an_experiment_of_any_name_keeps_its_artifacts_in_the_folder(tmp_path: Path, fresh: bytes) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    (root / "mlflow.db").write_bytes(fresh)
    note = tmp_path / "note.txt"
    note.write_text("x")
    for name in NAMES:
        store = open_store(root, experiment=name)
        with tracked_run(store, name, tags={"run_folder": name[:100]}) as run:
            run.log_params({f"training.loss.{name}": 1})
            run.log_file(note)
        assert [entry.path for entry in store.client.list_artifacts(run.run_id)] == ["note.txt"]
        assert store.find_run({"run_folder": name[:100]}) == run.run_id
    assert len(list((root / "artifacts").iterdir())) == len(NAMES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["note.txt", "runs"]


@pytest.mark.parametrize("folder", ["a b", "it's", 'q"x', "100%25#1", "a;b&c=d", "Größe 研究", "-x", "~x"])
def test_a_store_may_lie_in_a_folder_of_any_name(folder: str, tmp_path: Path, fresh: bytes) -> None:
    root = tmp_path / folder
    root.mkdir()
    (root / "mlflow.db").write_bytes(fresh)
    note = tmp_path / "note.txt"
    note.write_text("x")
    store = open_store(root, experiment="one")
    with tracked_run(store, "first") as run:
        run.log_file(note)
    assert [entry.path for entry in store.client.list_artifacts(run.run_id)] == ["note.txt"]
    assert len(list((root / "artifacts" / "one").rglob("note.txt"))) == 1


@pytest.mark.parametrize("folder", ["what?", "x" * 300])
def test_a_folder_that_no_store_can_lie_in_is_named(folder: str, tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match=r"choose another"):
        open_store(tmp_path / folder, experiment="one")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "override",
    [
        f"name={'x' * 300}",
        'tracking.experiment="a\\nb"',
        f"tracking.experiment={'x' * 501}",
        f"tracking.register_as={'x' * 300}",
        "tracking.register_as=..",
        'tracking.register_as=" "',
        'tracking.folder="a\\0b"',
        'data.source="a\\u2028b"',
        'data.tickers=[A, "B\\tC"]',
        "training.seeds=[1, 1" + "0" * 400 + "]",
    ],
)
def test_a_name_that_no_file_can_have_is_refused_at_once(override: str) -> None:
    with pytest.raises(ConfigError, match=override.partition("=")[0].split(".")[0]):
        StudyConfig().override([override])


def test_tickers_are_drawn_letter_by_letter(tmp_path: Path) -> None:
    days = pd.bdate_range("2020-01-01", periods=5)
    weights = pd.DataFrame({"<b>A</b>": 0.5, "B&lt;": 0.5}, index=days)
    figure = holdings.weights_over_time(weights, holdings.asset_colours(list(weights)))
    assert [trace.name for trace in figure.data] == ["&lt;b&gt;A&lt;/b&gt;", "B&amp;lt;"]
    file = tmp_path / "prices.csv"
    (100.0 + weights.cumsum()).rename(columns={"B&lt;": "<i>B"}).to_csv(file)
    page = show_snapshot(file, folder=tmp_path, calendar=None).read_text(encoding="utf-8")
    assert "<i>B" not in page
    assert "<b>A</b>" not in page
