"""Costs in a study: the section, the table of spreads kept with the run, and the same weights wherever it goes on."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import brief, same_weights

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.errors import AllocationError, ConfigError, DataError
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.plan import resolve_plan
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import resume_study, run_study

TICKERS = ["MTUM", "QUAL", "SIZE", "USMV", "VLUE"]
RATES = "costs.rate={MTUM: 0.0001, QUAL: 0.0002, SIZE: 0.0003, USMV: 0.0001, VLUE: 0.0002}"


def table(folder: Path) -> Path:
    dates = EmbeddedSource().load().loc["2018"].index
    values = np.random.default_rng(0).uniform(0.0001, 0.001, (len(dates), 5))
    file = folder / "spreads.csv"
    pd.DataFrame(values, dates, TICKERS).to_csv(file)
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("costs")


@pytest.fixture(scope="module")
def done(folder: Path) -> StudyResult:
    study = brief(folder / "runs", RATES, f"costs.spreads={table(folder)}", "costs.fixed=0.00001")
    result = run_study(study)
    (folder / "spreads.csv").unlink()  # the run has its own
    return result


def test_the_books_charge_what_the_section_says(done: StudyResult) -> None:
    book = done.ledgers["Equal weight"]
    rates = pd.Series([0.0001, 0.0002, 0.0003, 0.0001, 0.0002], TICKERS)
    np.testing.assert_allclose(book.daily["proportional_cost"], book.trades.abs() @ rates, rtol=1e-12)
    assert (book.daily["spread_cost"] > 0.0).equals(book.daily["turnover"] > 0.0)
    assert "1 to 3 bp by asset, half the bid-ask spread" in str(done)


def test_spreads_may_be_a_frame_in_python(done: StudyResult, folder: Path) -> None:
    spreads = pd.read_parquet(done.folder / "spreads.parquet")
    quick = "backtest.strategies=[equal_weight]"
    config = brief(folder / "runs", RATES, "costs.fixed=0.00001", quick, "evaluation.reference=equal_weight")
    result = run_study(config, spreads=spreads)
    assert result.ledgers["Equal weight"].daily.equals(done.ledgers["Equal weight"].daily)
    assert "half the bid-ask spread" in str(result)
    assert resume_study(result.folder).metrics.equals(result.metrics)
    with pytest.raises(DataError, match="they were given in Python; give them again"):
        run_study(result.config)


def test_a_finished_study_is_read_with_its_costs(done: StudyResult) -> None:
    again = load_result(done.folder)
    for label, book in done.ledgers.items():
        read = again.ledgers[label]
        pd.testing.assert_frame_equal(read.daily, book.daily, check_exact=True, check_freq=False)
        assert read.costs is not None
        assert read.with_costs(costs=read.costs).daily.equals(read.daily)
        assert read.opened == book.opened


def test_a_study_that_goes_on_decides_the_same(done: StudyResult, tmp_path: Path) -> None:
    copy = tmp_path / "moved"
    shutil.copytree(done.config.tracking.folder, copy)
    run = copy / done.folder.name
    for window in sorted((run / "windows").iterdir())[::2]:
        window.unlink()
    shutil.rmtree(run / "strategies")
    assert same_weights(resume_study(run), done)


def test_the_plan_counts_the_spread_of_its_own_date_and_none_after(done: StudyResult, tmp_path: Path) -> None:
    """Spreads that vanish from a date on leave every weight decided before it as it was, and move others."""
    spreads = pd.read_parquet(done.folder / "spreads.parquet")
    days = done.ledgers["Two-stage"].weights.index
    changed = spreads.copy()
    changed.loc[days[30] :] = 0.0
    changed.to_csv(tmp_path / "changed.csv")
    other = run_study(brief(tmp_path / "runs", RATES, f"costs.spreads={tmp_path / 'changed.csv'}"))
    for label in ("Decision-focused", "Two-stage"):
        before, after = done.ledgers[label].weights, other.ledgers[label].weights
        # The decision of a day's close is held through the next day.
        pd.testing.assert_frame_equal(before.iloc[:31], after.iloc[:31], check_exact=True)
        assert not before.iloc[31:].equals(after.iloc[31:])


def test_a_live_decision_needs_the_spreads_of_its_date(done: StudyResult, tmp_path: Path) -> None:
    day = dt.date(2018, 9, 7)
    advice = advise(done.folder, today=day)
    fresh = pd.read_parquet(done.folder / "spreads.parquet")
    assert advise(done.folder, today=day, spreads=fresh).target.equals(advice.target)
    with pytest.raises(DataError, match=r"spread of MTUM on 2018-09-07 is missing"):
        advise(done.folder, today=day, spreads=fresh.loc[:"2018-09-06"])


def test_spreads_that_are_missing_are_heard_of_before_anything_is_trained(tmp_path: Path) -> None:
    file = table(tmp_path)
    spreads = pd.read_csv(file, index_col=0)
    spreads.loc["2018-07-10", "SIZE"] = np.nan
    spreads.to_csv(file)
    with pytest.raises(DataError, match="spread of SIZE on 2018-07-10 is missing"):
        resolve_plan(brief(tmp_path / "runs", f"costs.spreads={file}"))
    spreads.drop(columns="VLUE").to_csv(file)
    with pytest.raises(DataError, match=r"no bid-ask spreads of VLUE"):
        resolve_plan(brief(tmp_path / "runs", f"costs.spreads={file}"))
    with pytest.raises(AllocationError, match="rate has no value for QUAL, SIZE, USMV, VLUE"):
        resolve_plan(brief(tmp_path / "runs", "costs.rate={MTUM: 0.1}"))


@pytest.mark.parametrize(
    ("texts", "both"),
    [
        (["costs.rate=0.001", "backtest.cost_rate=0.002"], r"costs\.rate and backtest\.cost_rate"),
        (["costs.rate=0.001", "allocation.transaction_cost=0.002"], r"costs\.rate and allocation\.transaction_cost"),
        (["costs.fixed=0.001", "backtest.fixed_cost=0.002"], r"costs\.fixed and backtest\.fixed_cost"),
    ],
)
def test_what_is_said_twice_is_refused_by_both_names(texts: list[str], both: str) -> None:
    with pytest.raises(ConfigError, match=both):
        StudyConfig().override(texts)


def test_old_keys_and_the_section_are_the_same_costs(tmp_path: Path) -> None:
    """One rate everywhere is that of the books and of the plan."""
    old = resolve_plan(brief(tmp_path, "backtest.cost_rate=0.001", "allocation.transaction_cost=0.001"))
    new = resolve_plan(brief(tmp_path, "costs.rate=0.001"))
    blind = resolve_plan(brief(tmp_path, "costs.rate=0.001", "costs.in_plan=false"))
    history = old.returns.loc[: old.span.dates[0]]
    keys = [[policy.task(history).key for policy in plan.policies.values()] for plan in (old, new, blind)]
    assert keys[0] == keys[1]
    assert keys[1] != keys[2]
    assert old.ledger.costs.rate == new.ledger.costs.rate == blind.ledger.costs.rate


def test_other_costs_are_other_windows(tmp_path: Path) -> None:
    file = table(tmp_path)
    texts = [[], ["costs.rate=0.001"], ["costs.impact=0.1"], [f"costs.spreads={file}"]]
    keys = set()
    for more in texts:
        plan = resolve_plan(brief(tmp_path / "runs", *more))
        keys.add(next(iter(plan.policies.values())).task(plan.returns.loc[: plan.span.dates[0]]).key)
    assert len(keys) == len(texts)
