"""Studies under `configs/` with features, limits, costs and other frequencies than daily: short spans, end to end."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import empty_store, same_weights

from portfolio_dfl.allocation.compliance import violations
from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.config.study import StudyConfig, load_config
from portfolio_dfl.risk.build import build_covariance
from portfolio_dfl.strategies.limits import build_limits
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import run_study

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
ETFS, STOCKS = "etf7_adj_close.csv", "universe_stock_adj_close.csv.gz"
#: File of prices of each study, and the last decision of the span.
STUDIES = {
    "weekly": (ETFS, "2018-02-28"),
    "long_short": (STOCKS, "2018-03-30"),
    "benchmark": (ETFS, "2018-04-30"),
    "monthly": (ETFS, "2018-04-30"),
    "universe": (STOCKS, "2018-01-31"),
}
#: So many of the stocks are enough for covariances that are kept in parts.
SOME = 48
FAST = [
    "training.epochs=1",
    "training.learning_rate=0.05",
    "training.samples=12",
    "training.ridge=0.01",
    "training.retrain_every=20",
    "covariance.window=60",
    "evaluation.bootstrap=0",
    "execution.backend=sequential",
    "data.start=2015-06-01",
    "data.end=2018-12-31",
    "backtest.start=2018-01-02",
]
PLANS = ("Decision-focused", "Two-stage", "Minimum variance")


def short(name: str, data: Path, folder: Path, *overrides: str) -> StudyConfig:
    file, end = STUDIES[name]
    there = [f"data.source={data / file}", f"backtest.end={end}", f"tracking.folder={folder}"]
    if name == "universe":
        tickers = pd.read_csv(data / file, nrows=0).columns[1 : SOME + 1]
        there.append(f"data.tickers=[{', '.join(tickers)}]")
    if name == "long_short":  # NFLX fell before this span begins
        there.append("data.policies={confirmed_jumps: [WMB 2016-02-08]}")
    return load_config(CONFIGS / f"{name}.yaml", [*FAST, *there, *overrides])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return empty_store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module", params=STUDIES)
def finished(request: pytest.FixtureRequest, shared_data: Path, folder: Path) -> StudyResult:
    return run_study(short(request.param, shared_data, folder))


def test_a_study_runs_end_to_end_and_says_how_often_it_decides(finished: StudyResult) -> None:
    assert not len(finished.failures)
    assert not len(finished.failed_windows)
    page = finished.report.read_text(encoding="utf-8")
    for label, book in finished.ledgers.items():
        assert np.isfinite(book.daily["wealth"]).all()
        assert label in page
        ordered = book.daily.index[book.daily["orders"] > 0]
        # The first session after the close of a week or a month, and no two of one.
        assert len(ordered) == len(
            ordered.to_period("W" if finished.config.name in ("weekly", "universe") else "M").unique()
        )
    assert same_weights(load_result(finished.folder), finished)


def test_every_decision_keeps_to_all_limits(finished: StudyResult) -> None:
    """Of plans, the day after each decision; between decisions prices may carry weights beyond."""
    allocation, section = finished.config.allocation, finished.config.covariance
    returns = pd.read_parquet(finished.folder / "prices.parquet").pct_change(fill_method=None).iloc[1:]
    tickers = list(returns.columns)
    limits = Limits.collect(len(tickers), build_limits(allocation, tickers), tickers)
    estimate = build_covariance(section.estimator, window=section.window, ridge=section.ridge)
    shown = [label for label in PLANS if label in finished.ledgers]
    assert any((finished.ledgers[label].daily["orders"] > 0).any() for label in shown)
    for label in shown:
        book = finished.ledgers[label]
        days = book.daily.index[book.daily["orders"] > 0]
        if not len(days):  # forecasts that are not worth their costs
            continue
        held, trades = book.weights.loc[days, tickers].to_numpy(), book.trades.loc[days, tickers].to_numpy()
        covariance = [estimate(returns.loc[returns.index < day].to_numpy()[-section.window :]) for day in days]
        broken = violations(
            limits,
            held,
            held - trades,
            turnover_limit=allocation.first_turnover_limit,
            covariance=allocation.stage * np.stack(covariance),
        )
        assert all(amount.max() < 1e-8 for amount in broken.values()), (label, broken)
        assert not any(remark.startswith(label) for remark in finished.remarks)
    # The limits do bind, so that this test can fail.
    if finished.config.name == "long_short":
        assert book.weights[tickers].abs().sum(axis=1).max() > 1.05
        assert (book.daily["borrow_cost"] > 0.0).any()


def test_a_decision_of_today_starts_from_what_the_study_starts_from(finished: StudyResult) -> None:
    advice = advise(finished.folder, strategy="two_stage", today=dt.date(2018, 12, 31))
    allocation = finished.config.allocation
    if allocation.repair == "none":
        assert advice.held.eq(1.0 / len(advice.held)).all()
    limits = Limits.collect(len(advice.held), build_limits(allocation, list(advice.held.index)))
    moves = advice.target.to_numpy()[None], advice.held.to_numpy()[None]
    broken = violations(limits, *moves, turnover_limit=allocation.first_turnover_limit)
    assert all(amount.max() < 1e-8 for amount in broken.values()), broken


# The study of the widest use of everything at once: features, limits by group, costs by ticker, weeks.
@pytest.fixture(scope="module")
def weekly(shared_data: Path, folder: Path) -> StudyResult:
    return run_study(short("weekly", shared_data, folder, "backtest.end=2018-01-31"))


def test_python_and_yaml_are_the_same_study(weekly: StudyResult, shared_data: Path) -> None:
    prices = pd.read_csv(shared_data / ETFS, index_col=0, parse_dates=True)
    sections = weekly.config.plain()
    data = {key: value for key, value in sections["data"].items() if key != "source"}
    assert same_weights(run_study({**sections, "data": data}, prices=prices), weekly)
    assert same_weights(run_study(**sections), weekly)
