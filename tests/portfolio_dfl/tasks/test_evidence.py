"""The protocol of the evidence in small, and that what is shipped was chosen as it says."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.evidence import evidence
from portfolio_dfl.tasks.evidence.universes import TITLES, read_universe

ROOT = Path(__file__).resolve().parents[3]
CONFIGS, PAGES = ROOT / "configs" / "evidence", ROOT / "docs" / "pages"


def test_a_reduced_protocol_selects_judges_and_says_what_it_found(runs: Path) -> None:
    result = evidence(configs=str(CONFIGS), reduced=True, folder=runs)
    rows = result.rows.set_index("strategy")
    assert {"Decision-focused", "Two-stage", "Two-stage, its own choice", "Equal weight"} <= set(rows.index)
    others = rows.drop(index="Decision-focused")
    ours = rows.loc["Decision-focused", "utility"]
    np.testing.assert_allclose(others["difference"], ours - others["utility"], atol=1e-12)
    assert (others["low"] <= others["high"]).all()
    place = runs / "tasks" / "evidence"
    page = (place / "evidence.html").read_text(encoding="utf-8")
    assert all(note in page for note in result.notes if note.startswith("Against"))
    trials = pd.read_csv(place / "factors_trials.csv")
    assert len(trials) == 2
    search = next(path for path in (place / "studies").glob("evidence-factors-*.csv"))
    assert pd.read_csv(search, parse_dates=["date"])["date"].max() < pd.Timestamp("2019-01-05")
    again = evidence(configs=str(CONFIGS), reduced=True, folder=runs)  # nothing is trained a second time
    pd.testing.assert_frame_equal(again.rows, result.rows)
    assert len(list((place / "studies").glob("evidence-factors-*/facts.json"))) == 2


@pytest.mark.parametrize("name", list(TITLES))
def test_a_chosen_configuration_is_its_grid_with_one_value_of_each_list(name: str, tmp_path: Path) -> None:
    universe = read_universe(name, CONFIGS, None if name in ("sp500", "factors") else "prices.csv", tmp_path)
    space = universe.search.sweep.space
    for key, values in space.items():
        found = universe.chosen.plain()
        for part in key.split("."):
            found = found[part]
        assert found in values
    same = {"name", "data", "features", "covariance", "allocation", "forecasting", "training", "costs"}
    chosen, search = (yaml.safe_load(config.to_yaml()) for config in (universe.chosen, universe.search))
    for key in space:
        for tree in (chosen, search):
            *parents, last = key.split(".")
            for parent in parents:
                tree = tree[parent]
            del tree[last]
    assert {key: chosen[key] for key in same} == {key: search[key] for key in same}
    assert universe.chosen.backtest.start == universe.search.backtest.start
    assert universe.chosen.sweep == StudyConfig().sweep


def number(text: str) -> float:
    return float(text.replace("−", "-").removesuffix(" %"))


def test_the_page_of_the_evidence_shows_what_the_table_beside_it_has() -> None:
    text = (PAGES / "evidence.md").read_text(encoding="utf-8")
    rows = pd.read_csv(PAGES / "evidence" / "evidence.csv").set_index(["universe", "strategy"])
    shown = ("Decision-focused", "Two-stage", "Two-stage, its own choice", "Equal weight")
    for name in TITLES:
        line = next(
            line for line in text.splitlines() if line.startswith(f"| {name} | +") or line.startswith(f"| {name} | −")
        )
        cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
        for strategy, cell in zip(shown, cells[:4], strict=True):
            assert number(cell) == pytest.approx(rows.loc[(name, strategy), "utility"], abs=5.1e-5)
        for strategy, cell in zip(shown[1:], cells[4:], strict=True):
            estimate, low, high = (number(part.strip(" ,[]")) for part in cell.split(" "))
            found = rows.loc[(name, strategy), ["difference", "low", "high"]].to_numpy(float)
            np.testing.assert_allclose([estimate, low, high], found, atol=5.1e-5)


def test_a_chosen_configuration_runs_on_fresh_prices() -> None:
    text = (CONFIGS / "etf7.yaml").read_text(encoding="utf-8")
    changes = ["data.source=fresh.csv", "data.end=null", "backtest.start=2025-01-02"]
    fresh = StudyConfig.from_yaml(text).override(changes)
    assert fresh.data.end is None
    assert fresh.backtest.start == date(2025, 1, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"universes": ["etf7"]}, "etf7=FILE"),
        ({"universes": ["bonds"]}, "there are etf7, etfs"),
        ({"universes": ["factors"], "configs": "nowhere"}, "configs/evidence of the project"),
        ({"universes": []}, "universes is an empty list"),
    ],
)
def test_what_cannot_be_run_is_said_first(settings: dict[str, object], message: str, runs: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        evidence(**{"configs": str(CONFIGS), **settings}, folder=runs)  # type: ignore[arg-type]
