"""What assets contributed adds up to what the portfolio did."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.backtest import Ledger, run_ledger
from portfolio_dfl.backtest.contribution import by_group, contributions, daily_contributions
from portfolio_dfl.errors import BacktestError


def books(seed: int, *, cash: float | None = None, short: bool = False) -> tuple[Ledger, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    days, assets = pd.bdate_range("2024-01-01", periods=30), list("ABCD")
    returns = pd.DataFrame(rng.normal(0.0, 0.02, (30, 4)), days, assets)
    weights = rng.dirichlet(np.ones(4), 6)
    if short:
        weights += rng.normal(0.0, 0.3, (6, 4)) @ (np.eye(4) - 0.25)
    if cash is not None:
        weights *= 0.7
    targets = pd.DataFrame(weights, days[::5], assets)
    return run_ledger(targets, returns, cost_rate=1e-3, cash=cash), returns


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), cash=st.sampled_from([None, 1e-4]), short=st.booleans())
def test_contributions_add_up(seed: int, cash: float | None, short: bool) -> None:
    ledger, returns = books(seed, cash=cash, short=short)
    gross = ledger.daily["gross_return"]
    table = contributions(ledger, returns, periods_per_year=252.0)
    daily = daily_contributions(ledger, returns)
    np.testing.assert_allclose(daily.sum(axis=1), gross, rtol=0, atol=1e-14)
    earned = gross.to_numpy()
    assert table["return"].sum() == pytest.approx(np.prod(1.0 + earned) - 1.0, abs=1e-12)
    assert table["risk"].sum() == pytest.approx(np.sqrt(252) * earned.std(ddof=1), abs=1e-12)
    grouped = by_group(table, {"A": "first", "B": "first", "C": "second"})
    assert list(grouped.index) == ["first", "second", "no group"] + (["cash"] if cash is not None else [])
    np.testing.assert_allclose(grouped.sum(), table.sum(), atol=1e-12)


def test_cash_contributes_its_interest() -> None:
    ledger, returns = books(3, cash=1e-4)
    daily = daily_contributions(ledger, returns)
    np.testing.assert_allclose(daily["cash"], ledger.weights["cash"] * 1e-4, atol=1e-15)


def test_a_single_asset_contributes_all() -> None:
    days = pd.bdate_range("2024-01-01", periods=4)
    returns = pd.DataFrame({"A": [0.0, 0.1, -0.1, 0.2], "B": [0.0, 0.5, 0.5, 0.5]}, days)
    ledger = run_ledger(pd.DataFrame({"A": [1.0], "B": [0.0]}, days[:1]), returns)
    table = contributions(ledger, returns, periods_per_year=252.0)
    assert table["return"].tolist() == pytest.approx([1.1 * 0.9 * 1.2 - 1.0, 0.0])
    assert table.loc["B", "risk"] == 0.0


def test_other_returns_are_told() -> None:
    ledger, returns = books(1)
    with pytest.raises(BacktestError, match="not the returns of its books"):
        daily_contributions(ledger, returns + 0.01)
    with pytest.raises(BacktestError, match="returns of D are missing"):
        daily_contributions(ledger, returns[["A", "B", "C"]])
    with pytest.raises(BacktestError, match=r"return of A on 2024-02-0\d is missing"):
        daily_contributions(ledger, returns.iloc[:-4])
