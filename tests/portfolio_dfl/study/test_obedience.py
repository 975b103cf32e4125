"""Studies with limits by ticker: every decision keeps to all of them, and who does not is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_study import small

from portfolio_dfl.allocation.compliance import violations
from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.risk import RollingCovariance
from portfolio_dfl.strategies.limits import build_limits
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import run_study

LIMITS = (
    "allocation.limits={min_weight: -0.1, max_weight: 0.5, gross: 1.3, max_trade: {SIZE: 0.05}, "
    "groups: {risky: {max: 0.3}, '*': {min: 0.1}}, group_column: kind, "
    "benchmark: {weights: {MTUM: 0.2, USMV: 0.5, VLUE: 0.3}, tracking_error: 0.0015}, group_of: "
)
STRATEGIES = "backtest.strategies=[minimum_variance, historical_mean_variance, equal_weight, buy_and_hold]"
PLANNED = ("Minimum variance", "Historical mean-variance")


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    folder: Path = tmp_path_factory.mktemp("runs")
    groups = folder / "kinds.csv"
    groups.write_text("ticker,kind\nMTUM,risky\nQUAL,risky\nSIZE,calm\nUSMV,calm\nVLUE,calm\nSPY,calm\n")
    quick = [STRATEGIES, "allocation.solver=piqp", "allocation.repair=project", "evaluation.bootstrap=0"]
    quick += ["evaluation.reference=equal_weight", "covariance.window=20"]
    return run_study(small(folder, f"{LIMITS}{groups}}}", *quick))


def test_every_planned_decision_keeps_to_all_limits(limited: StudyResult) -> None:
    allocation = limited.config.allocation
    for label in PLANNED:
        book = limited.ledgers[label]
        tickers = list(book.trades.columns)
        held, trades = book.weights[tickers].to_numpy(), book.trades.to_numpy()
        assert not len(limited.failures)
        collected = Limits.collect(len(tickers), build_limits(allocation, tickers), tickers)
        ordered = (book.daily["orders"] > 0).to_numpy()
        limit = allocation.first_turnover_limit
        broken = violations(collected, held[ordered], (held - trades)[ordered], turnover_limit=limit)
        assert all(amount.max() < 1e-8 for amount in broken.values()), broken
        assert not any(label in remark for remark in limited.remarks)


def test_the_tracking_error_is_kept_by_the_covariance_of_each_decision(limited: StudyResult) -> None:
    import pandas as pd

    prices = pd.read_parquet(next(limited.folder.glob("**/prices.parquet")))
    returns = prices.pct_change(fill_method=None).iloc[1:]
    section = limited.config.covariance
    estimate = RollingCovariance(section.window, section.ridge)
    benchmark = np.array([{"MTUM": 0.2, "USMV": 0.5, "VLUE": 0.3}.get(ticker, 0.0) for ticker in returns.columns])
    reached = []
    for label in PLANNED:
        book = limited.ledgers[label]
        for day in book.daily.index[book.daily["orders"] > 0]:
            known = returns.loc[: returns.index[returns.index.get_loc(day) - 1]].to_numpy()
            away = book.weights.loc[day, returns.columns].to_numpy() - benchmark
            reached.append(float(np.sqrt(away @ estimate(known[-section.window :]) @ away)))
    assert max(reached) < 0.0015 + 1e-8


def test_rules_that_do_not_plan_are_named_with_what_they_break(limited: StudyResult) -> None:
    remarks = "\n".join(limited.remarks)
    assert "starts from the nearest weights within the limits" in remarks
    for label in ("Equal weight", "Buy and hold"):
        assert f"{label} does not keep to allocation.limits: it breaks" in remarks
    assert "group 'risky' by up to 0.1" in remarks
    assert remarks in str(limited)
    assert load_result(limited.folder).remarks == limited.remarks


def test_a_start_out_of_reach_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'risky' at most 0"):
        run_study(small(tmp_path, "allocation.limits.groups={risky: {tickers: [MTUM, QUAL], max: 0.05}}"))
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
