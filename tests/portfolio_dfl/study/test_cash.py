"""Cash that a study makes from a rate: an asset without prices, at home in run, resume, predict and report."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import small

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import resume_study, run_study

RATE = 0.04
CASH = ("costs.cash_rate=0.04", "allocation.limits.cash=CASH")
QUICK = (
    "backtest.end=2018-07-13",
    "backtest.strategies=[decision_focused, two_stage, historical_mean_variance, minimum_variance, risk_parity]",
    "training.epochs=1",
    "training.retrain_every=20",
    "training.two_stage=least_squares",
    "features={momentum: {builtin: momentum, options: {windows: 5}}, month: {builtin: day_of_month}}",
    "forecasting.prior=equilibrium",
    "evaluation.bootstrap=0",
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return run_study(small(tmp_path_factory.mktemp("runs"), *CASH, *QUICK))


def test_cash_earns_its_rate_by_the_calendar_and_is_traded_free(study: StudyResult) -> None:
    prices = pd.read_parquet(next(study.folder.glob("**/prices.parquet")))
    days = np.diff(prices.index.to_numpy()) / np.timedelta64(1, "D")
    assert np.allclose(prices["CASH"].pct_change().iloc[1:], RATE * days / 365.0, rtol=0, atol=1e-15)
    book = study.ledgers["Minimum variance"]
    others = book.trades.drop(columns="CASH").abs().sum(axis=1)
    assert np.allclose(book.daily["turnover"], others, rtol=0, atol=1e-12)
    assert book.weights["CASH"].iloc[-1] > 0.99  # what has no variance is all that it holds in the end


def test_cash_is_no_part_of_what_is_forecast_and_has_no_risk(study: StudyResult) -> None:
    assert not len(study.failed_windows)
    assert not len(study.failures), study.failures["message"].iloc[0]
    assert study.ledgers["Risk parity"].weights["CASH"].iloc[-1] < 1e-9
    assert any("CASH is cash at 0.04 a year" in remark for remark in study.remarks)
    assert "CASH is cash at 0.04 a year" in study.report.read_text(encoding="utf-8")


def test_a_study_with_cash_resumes_and_predicts(study: StudyResult) -> None:
    again = resume_study(study.folder)
    assert again.metrics.equals(study.metrics)
    advice = advise(study.folder, today=dt.date(2018, 12, 31))
    assert advice.target.sum() == pytest.approx(1.0)
    assert "CASH" in advice.target.index
    assert load_result(study.folder).remarks == study.remarks


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["costs.cash_rate=0.04"], "name it, allocation.limits.cash=CASH"),
        ([*CASH, "data.tickers=[CASH, SPY]"], "data.tickers names CASH"),
        (["costs.cash_rate=0.04", "allocation.limits.cash=MTUM"], "MTUM, which the prices have already"),
    ],
)
def test_cash_that_is_named_twice_or_not_at_all_is_refused(tmp_path: Path, texts: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_study(small(tmp_path, *texts))


def test_without_a_rate_nothing_is_made() -> None:
    assert StudyConfig().costs.cash_rate is None
