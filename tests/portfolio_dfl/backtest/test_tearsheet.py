"""Statistics of a tear sheet, against hand computations and other libraries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from skfolio import measures
from skfolio.datasets import load_factors_dataset

from portfolio_dfl.backtest import Ledger, run_ledger
from portfolio_dfl.backtest.tearsheet import (
    AGAINST_BENCHMARK,
    TEAR_SHEET,
    calendar_returns,
    drawdown_episodes,
    effective_holdings,
    exposure,
    rolling_statistics,
    tear_sheet,
    tear_sheet_table,
)
from portfolio_dfl.errors import BacktestError


@pytest.fixture(scope="module")
def books() -> tuple[Ledger, Ledger]:
    """Of random weights, and of equal ones, over three years."""
    returns = load_factors_dataset().pct_change().loc["2019-06":"2022-06"]
    shape = (len(returns), returns.shape[1])
    raw = np.random.default_rng(1).dirichlet(np.ones(shape[1]), shape[0])
    equal = np.full(shape, 1.0 / shape[1])

    def book(weights: np.ndarray, name: str) -> Ledger:
        return run_ledger(pd.DataFrame(weights, returns.index, returns.columns), returns, cost_rate=1e-4, name=name)

    return book(raw, "own"), book(equal, "equal")


def book_of(net: list[float], start: str = "2024-01-02") -> Ledger:
    """Of one asset, held throughout."""
    days = pd.bdate_range(start, periods=len(net) + 1)
    returns = pd.DataFrame({"A": [0.0, *net]}, days)
    return run_ledger(pd.DataFrame({"A": [1.0]}, days[:1]), returns)


def test_shape_and_tails_agree_with_another_library(books: tuple[Ledger, Ledger]) -> None:
    own = books[0]
    net = own.net_returns.to_numpy()
    found = tear_sheet(own)
    assert found["skewness"] == pytest.approx(measures.skew(net), rel=1e-9)
    assert found["excess_kurtosis"] == pytest.approx(measures.kurtosis(net) - 3.0, rel=1e-9)
    assert found["value_at_risk"] == pytest.approx(-measures.value_at_risk(net, 0.95), rel=0.02)
    assert found["expected_shortfall"] == pytest.approx(-measures.cvar(net, 0.95), rel=0.02)
    assert found["worst"] == -measures.worst_realization(net)


def test_ratios_are_what_their_words_say(books: tuple[Ledger, Ledger]) -> None:
    own = books[0]
    net = own.net_returns.to_numpy()
    found = tear_sheet(own, risk_free=0.02)
    excess = net - (1.02 ** (1 / 252) - 1)
    below = np.sqrt(np.mean(np.minimum(excess, 0.0) ** 2))
    assert found["sortino"] == pytest.approx(np.sqrt(252) * excess.mean() / below, rel=1e-12)
    wealth = np.concatenate([[1.0], np.cumprod(1.0 + net)])
    deepest = (wealth / np.maximum.accumulate(wealth) - 1.0).min()
    assert found["calmar"] == pytest.approx((wealth[-1] ** (252 / len(net)) - 1.0) / -deepest, rel=1e-12)
    assert found["win_rate"] == pytest.approx((net > 0).mean())
    assert found["annual_turnover"] == pytest.approx(252 * own.daily["turnover"].mean())


def test_a_benchmark_is_regressed_upon(books: tuple[Ledger, Ledger]) -> None:
    own, equal = books
    found = tear_sheet(own, equal, risk_free=0.03)
    rate = 1.03 ** (1 / 252) - 1
    x, y = equal.net_returns.to_numpy() - rate, own.net_returns.to_numpy() - rate
    slope, intercept = np.polyfit(x, y, 1)
    assert found["beta"] == pytest.approx(slope, rel=1e-9)
    assert found["alpha"] == pytest.approx(252 * intercept, rel=1e-7)
    assert found["tracking_error"] == pytest.approx(np.sqrt(252) * (y - x).std(ddof=1), rel=1e-9)
    assert found["information_ratio"] == pytest.approx(np.sqrt(252) * (y - x).mean() / (y - x).std(ddof=1), rel=1e-9)
    up = equal.net_returns.to_numpy() > 0
    assert found["up_capture"] == pytest.approx((y[up] + rate).mean() / (x[up] + rate).mean(), rel=1e-9)


def test_twice_the_benchmark_has_beta_and_capture_of_two() -> None:
    net = [0.01, -0.02, 0.005, 0.0, -0.01, 0.03]
    found = tear_sheet(book_of([2 * r for r in net]), book_of(net))
    assert found[["beta", "up_capture", "down_capture"]].tolist() == pytest.approx([2.0, 2.0, 2.0])
    assert found["alpha"] == pytest.approx(0.0, abs=1e-12)


def test_what_does_not_exist_is_not_a_number(books: tuple[Ledger, Ledger]) -> None:
    still = tear_sheet(book_of([0.0] * 5), book_of([0.0] * 5))
    for name in ("sortino", "calmar", "skewness", "excess_kurtosis", "alpha", "beta", "information_ratio"):
        assert np.isnan(still[name])
    assert still["tracking_error"] == 0.0
    alone = tear_sheet_table(books, books[1])
    assert list(alone.columns) == [*TEAR_SHEET, *AGAINST_BENCHMARK]
    assert alone.loc["equal", list(AGAINST_BENCHMARK)].isna().all()
    assert alone.loc["own"].notna().all()


def test_a_benchmark_of_other_days_is_refused() -> None:
    with pytest.raises(BacktestError, match="same days only"):
        tear_sheet(book_of([0.1, 0.2]), book_of([0.1]))


def test_drawdowns_have_their_dates() -> None:
    net = pd.Series([-0.1, 0.2, -0.5, 0.1, 1.2, -0.2], pd.bdate_range("2024-01-01", periods=6))
    found = drawdown_episodes(net)
    assert found["depth"].tolist() == pytest.approx([-0.5, -0.2, -0.1])
    day = net.index
    assert found["trough"].tolist() == [day[2], day[5], day[0]]
    assert found["peak"].tolist()[:2] == [day[1], day[4]]
    assert found["peak"].isna().tolist() == [False, False, True]
    assert found["recovery"].tolist()[0] == day[4]
    assert found["recovery"].isna().tolist() == [False, True, False]
    assert found["rows_down"].tolist() == [1, 1, 1]
    assert found["rows_under"].tolist() == [3, 1, 2]
    assert len(drawdown_episodes(net, 2)) == 2


def test_rising_wealth_has_no_drawdown() -> None:
    assert drawdown_episodes(pd.Series([0.1, 0.0], pd.bdate_range("2024-01-01", periods=2))).empty


def test_the_deepest_drawdown_is_that_of_the_metrics(books: tuple[Ledger, Ledger]) -> None:
    from portfolio_dfl.backtest.evaluation import performance

    for book in books:
        assert drawdown_episodes(book.net_returns)["depth"].iloc[0] == pytest.approx(performance(book)["max_drawdown"])


def test_months_compound_to_years_and_years_to_all(books: tuple[Ledger, Ledger]) -> None:
    net = books[0].net_returns
    table = calendar_returns(net)
    assert list(table.columns) == [*range(1, 13), "year"]
    months = (1.0 + table[list(range(1, 13))].fillna(0.0)).prod(axis=1) - 1.0
    assert months.to_numpy() == pytest.approx(table["year"].to_numpy())
    assert np.prod(1.0 + table["year"].to_numpy()) == pytest.approx(np.prod(1.0 + net.to_numpy()))
    assert table.isna().loc[2019, 3]


def test_rolling_statistics_end_with_those_of_the_last_rows(books: tuple[Ledger, Ledger]) -> None:
    own, equal = (book.net_returns for book in books)
    last = rolling_statistics(own, equal, 63, periods_per_year=252.0).iloc[-1]
    tail, other = own.iloc[-63:].to_numpy(), equal.iloc[-63:].to_numpy()
    assert last["volatility"] == pytest.approx(np.sqrt(252) * tail.std(ddof=1))
    assert last["sharpe"] == pytest.approx(np.sqrt(252) * tail.mean() / tail.std(ddof=1))
    assert last["beta"] == pytest.approx(np.polyfit(other, tail, 1)[0])
    assert "beta" not in rolling_statistics(own, None, 63, periods_per_year=252.0)


def test_exposure_and_holdings_are_counted(books: tuple[Ledger, Ledger]) -> None:
    weights = pd.DataFrame({"A": [1.3], "B": [-0.3]})
    short = replace(book_of([0.0]), weights=weights, trades=0.0 * weights)
    assert exposure(short).iloc[0].to_dict() == pytest.approx({"long": 1.3, "short": -0.3, "net": 1.0, "gross": 1.6})
    assert effective_holdings(short).iloc[0] == pytest.approx(1.6**2 / (1.3**2 + 0.3**2))
    assert effective_holdings(books[1]).iloc[0] == pytest.approx(books[1].weights.shape[1])
