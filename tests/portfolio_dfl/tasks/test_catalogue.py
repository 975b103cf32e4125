"""Tasks by name, tables in the paper's layout, and timing side by side."""

from __future__ import annotations

import inspect
import math
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
import torch

from portfolio_dfl.cli import main
from portfolio_dfl.config.study import assignments
from portfolio_dfl.errors import ConfigError, TrackingError
from portfolio_dfl.tasks.catalogue import TASKS, run_task
from portfolio_dfl.tasks.records import paper_layout
from portfolio_dfl.tasks.timing import time_side_by_side


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("projection", {}, "no task is called"),
        ("smoothing", {"delta": 1.0}, "the nearest is deltas"),
        ("runtime", {"horizons": 3}, "task runtime: horizons: a list is needed, not 3"),
        ("runtime", {"horizons": [5, "x"], "n_assets": math.nan}, "horizons.1: a whole .*; n_assets: a finite number"),
        ("projection-chain", {"kind": "simplex"}, "no setting 'kind'"),
        ("smoothing", {"n": "many"}, "task smoothing: n: a whole number is needed, not 'many'"),
    ],
)
def test_wrong_names_and_settings_are_refused(name: str, settings: dict[str, object], message: str, runs: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run_task(name, settings, folder=runs)


# What a task's numbers must not be: of every task, every number and every list.
UNUSABLE = {
    "gradient-accuracy": ["sizes=[]", "sizes=[[0, 1]]", "instances=0", "scales=[]", "scales=[0]", "scales=[.nan]"],
    "projection-simplex": ["sizes=[]", "sizes=[1]", "sizes=[20, -20]", "repeats=0"],
    "projection-chain": ["sizes=[]", "sizes=[0]", "repeats=-1"],
    "runtime": ["horizons=[]", "horizons=[10, 0]", "n_assets=1", "repeats=0", "batch=-1", "batch_horizons=[0]"],
    "epoch": ["tickers=[]", "horizon=0", "batch=-5", "repeats=0"],
    "sudoku": [
        "boards=0",
        "held_out=0",
        "clues=0",
        "batch=0",
        "epochs=0",
        "learning_rate=0",
        "methods=[]",
        "repeats=0",
    ],
    "mechanism": [
        "markets=1",
        "tested=1",
        "epochs=0",
        "learning_rate=0",
        "risk_aversion=-1",
        "curvature=[-1]",
        "curvature=[4]",
        "signal=[0]",
        "cost=[-0.1]",
        "samples=[4]",
        "assets=[1]",
        "strength=[]",
    ],
    "evidence": ["universes=[]", "universes=[bonds]", "replications=50"],
    "factor-risk": ["sizes=[]", "sizes=[[30, 0, 3]]", "repeats=0"],
    "smoothed-training": [
        "lookback=0",
        "horizon=0",
        "transaction_cost=-0.1",
        "windows=0",
        "samples=1",
        "test=0",
        "epochs=0",
        "barrier=[0]",
        "penalty=[.inf]",
        "perturbation=[-1.0]",
        "perturbed=1",
        "values=[]",
        "tickers=[]",
    ],
    "objectives": [
        "tickers=[]",
        "starts=[]",
        "cost=-0.1",
        "risk_aversion=0",
        "horizon=0",
        "samples=1",
        "retrain_every=0",
        "epochs=0",
        "learning_rate=0",
        "strength=0",
    ],
    "universe": [
        "assets=[]",
        "assets=[39]",
        "years=2",
        "learned_years=0",
        "factors=0",
        "horizon=0",
        "samples=1",
        "epochs=0",
    ],
    "smoothing": ["n=1", "instances=0", "deltas=[]", "deltas=[-1.0]", "deltas=[.inf]"],
}
for task in set(UNUSABLE) - {"epoch", "objectives", "evidence"}:
    UNUSABLE[task] += ["seed=-1"]
_WITHOUT_PEERS = {"epoch", "smoothing", "factor-risk", "smoothed-training", "objectives", "universe"}
for task in set(UNUSABLE) - _WITHOUT_PEERS - {"mechanism", "evidence"}:
    UNUSABLE[task] += ["peer_limit_s=0", "peer_limit_s=.inf"]


@pytest.mark.parametrize(
    ("name", "assignment"), [(name, assignment) for name, texts in UNUSABLE.items() for assignment in texts]
)
def test_numbers_without_meaning_and_lists_of_nothing_are_refused_at_once(
    name: str, assignment: str, tmp_path: Path
) -> None:
    key = assignment.partition("=")[0]
    expected = "size .0, 1. is not a pair" if assignment == "sizes=[[0, 1]]" else f"^{key} (is|has) "
    with pytest.raises(ConfigError, match=expected):
        run_task(name, assignments([assignment]), folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("horizons=[10, 100000000]", "horizons=100000000 with n_assets=7 takes some .* GB of this machine's"),
        ("n_assets=1000000", "horizons=10 with n_assets=1000000 takes"),
        ("repeats=1000000000000", "horizons=10 with n_assets=7 takes"),
        ("batch=1000000000", "batch=1000000000 at batch_horizons=10 with n_assets=7 takes"),
        ("batch_horizons=[100000000]", "batch=120 at batch_horizons=100000000 with n_assets=7 takes"),
    ],
)
def test_sizes_beyond_the_memory_are_refused_at_once(assignment: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run_task("runtime", assignments([assignment]), folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_arrays_that_the_memory_does_not_take_are_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object, **__: object) -> None:
        raise MemoryError("unable to allocate 7 TiB")

    monkeypatch.setattr("portfolio_dfl.tasks.smoothing.require_place", fill)
    with pytest.raises(ConfigError, match="task smoothing does not fit in memory: unable to allocate 7 TiB"):
        run_task("smoothing", folder=tmp_path)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("what", ["a file for a folder", "no store"])
def test_a_place_that_takes_no_results_is_named_before_the_work(
    name: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work began")

    for first in ("_errors", "_measure", "_trainer", "_one_date", "_one_size", "_data"):
        monkeypatch.setattr(import_module(f"portfolio_dfl.tasks.{TASKS[name][0]}"), first, work, raising=False)
    spoilt = tmp_path / ("tasks" if what == "a file for a folder" else "mlflow.db")
    spoilt.write_text("neither folder nor store")
    with pytest.raises(TrackingError, match=str(spoilt)):
        run_task(name, folder=tmp_path)


def test_every_number_and_list_of_a_task_is_tried() -> None:
    """A setting that is added later must say what it refuses, too."""
    for name, (module, function, fixed) in TASKS.items():
        parameters = inspect.signature(getattr(import_module(f"portfolio_dfl.tasks.{module}"), function)).parameters
        tried = {assignment.partition("=")[0] for assignment in UNUSABLE[name]}
        free = {"folder", "reduced", "peers", "source", "start", "end", "market", *fixed}
        free |= (
            {"etf7", "etfs", "stocks", "configs", "sensitivity", "backend", "workers"} if name == "evidence" else set()
        )
        assert tried == set(parameters) - free - ({"n"} if name == "sudoku" else set())


def test_settings_reach_the_task(runs: Path) -> None:
    result = run_task("projection_simplex", {"sizes": [10], "repeats": 1, "peers": []}, folder=runs)
    assert set(result.rows["n"]) == {10}


def test_layout_shows_each_line_once_and_gaps_where_nothing_was_measured() -> None:
    rows = pd.DataFrame(
        [("a", "x", 1, 0.5), ("a", "y", 1, 2.0), ("b", "x", 2, float("nan"))], columns=["solver", "metric", "n", "ms"]
    )
    lines = paper_layout(rows, ["solver", "metric"], "n", "ms").splitlines()
    assert [line.split() for line in lines[2:]] == [["a", "x", "0.5", "–"], ["y", "2", "–"], ["b", "x", "–", "–"]]


@pytest.mark.parametrize("once", [True, False])
def test_layers_take_turns_on_the_same_inputs(monkeypatch: pytest.MonkeyPatch, once: bool) -> None:
    calls: list[tuple[str, float]] = []
    monkeypatch.setattr("portfolio_dfl.tasks.timing.LONG_S", 0.0 if once else 60.0)

    def layer(name: str):  # type: ignore[no-untyped-def]
        def run(x: torch.Tensor) -> torch.Tensor:
            calls.append((name, float(x.detach()[0])))
            return 2.0 * x if name == "a" else x.detach()

        return run

    times = time_side_by_side(
        {"a": layer("a"), "bare": layer("bare")}, lambda i: torch.full((3,), float(i)), repeats=2, warm_up=1
    )
    # After the warm-up round, quick layers are called twice in their turn and the second call counts.
    times_each = 1 if once else 2
    warm_up, turns = [("a", -1.0), ("bare", -1.0)], [("a", 0.0), ("bare", 0.0), ("bare", 1.0), ("a", 1.0)]
    assert sorted(calls[:2]) == warm_up
    assert calls[2:] == [call for call in turns for _ in range(times_each)]
    assert times["a"].calls == 2
    assert times["a"].backward > 0.0
    assert times["bare"].backward != times["bare"].backward
    assert times["bare"].total == times["bare"].forward


def test_help_names_every_task(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["portfolio-dfl", "task", "--help"])
    with pytest.raises(SystemExit):
        main()
    shown = "".join(capsys.readouterr().out.replace("│", "").split())
    assert [name for name in TASKS if name not in shown] == []
