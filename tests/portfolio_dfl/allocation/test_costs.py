"""The object of all costs: what the plan counts, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.allocation.costs import Costs
from portfolio_dfl.errors import AllocationError, DataError, PortfolioError

TICKERS = ["A", "B"]
DATES = pd.bdate_range("2024-01-01", periods=3)


def spreads(**changes: object) -> pd.DataFrame:
    return pd.DataFrame([(0.001, 0.002), (0.003, 0.004), (0.0, np.nan)], DATES, TICKERS).assign(**changes)


def test_the_plan_counts_half_the_spread_of_the_decision_date() -> None:
    costs = Costs(rate={"B": 0.01, "A": 0.02}, spreads=spreads())
    found = costs.plan_rates(DATES[:2], TICKERS)
    np.testing.assert_allclose(found, [(0.0205, 0.011), (0.0215, 0.012)], rtol=1e-15)


def test_a_plan_without_spreads_counts_one_rate() -> None:
    assert Costs(rate=0.01).plan_rate(TICKERS) == 0.01
    assert Costs(rate=0.01).plan_rates(DATES, TICKERS) is None


def test_a_plan_may_count_nothing_or_another_rate() -> None:
    blind = Costs(rate=0.01, spreads=spreads(), impact=0.1, in_plan=False)
    assert blind.plan_rate(TICKERS) == 0.0
    assert blind.plan_rates(DATES, TICKERS) is None
    assert blind.plan_impact(TICKERS) == 0.0
    assert Costs(rate=0.01, in_plan=False, planned_rate=0.02).plan_rate(TICKERS) == 0.02


def test_the_plans_parabola_costs_what_the_power_does_at_a_typical_trade() -> None:
    costs = Costs(impact={"A": 0.3, "B": 0.1}, typical_trade=0.04)
    paid = costs.charges(np.diag([0.04, 0.04]), DATES[:2], TICKERS).impact
    np.testing.assert_allclose(costs.plan_impact(TICKERS) * 0.04**2, paid, rtol=1e-14)


def test_a_star_stands_for_all_that_are_not_named() -> None:
    dates, trades = pd.DatetimeIndex(["2024-01-02"]), np.array([[0.1, -0.2, 0.1]])
    costs = Costs(rate={"*": 0.001, "B": 0.002}, borrow_rate={"*": 0.02})
    costs.check(["A", "B", "C"])
    assert costs.charges(trades, dates, ["A", "B", "C"]).proportional == pytest.approx([0.0002 + 0.0004])
    assert costs.borrow_fees(np.array([[-0.5, 1.0, 0.5]]), np.array([1.0]), ["A", "B", "C"]) == pytest.approx([0.01])
    with pytest.raises(AllocationError, match="values for D, which are not among the assets"):
        Costs(rate={"*": 0.001, "D": 0.0}).check(["A", "B", "C"])


def test_missing_spreads_are_named() -> None:
    with pytest.raises(DataError, match="spread of B on 2024-01-03 is missing, 1 of 6 values"):
        Costs(spreads=spreads()).plan_rates(DATES, TICKERS)
    with pytest.raises(DataError, match="spread of A on 2024-01-04 is missing"):
        Costs(spreads=spreads()).spreads_on(pd.DatetimeIndex(["2024-01-04"]), TICKERS)


@pytest.mark.parametrize(
    ("wrong", "error", "what"),
    [
        ({"rate": -0.1}, AllocationError, "rate is -0.1"),
        ({"impact": {"A": np.nan}}, AllocationError, "impact of A"),
        ({"borrow_rate": np.inf}, AllocationError, "borrow_rate"),
        ({"typical_trade": 0.0}, AllocationError, "typical_trade"),
        ({"cash_rate": -2.0}, AllocationError, "cash_rate"),
        ({"spreads": spreads(A=5.0)}, DataError, "spread of A on 2024-01-01 is 5"),
        ({"spreads": spreads(B=-0.1)}, DataError, "spread of B on 2024-01-01 is -0.1"),
        ({"spreads": pd.concat([spreads(), spreads()])}, DataError, "each once"),
    ],
)
def test_numbers_that_cannot_be_costs_are_refused(wrong: dict[str, object], error: type[PortfolioError], what: str):
    with pytest.raises(error, match=what):
        Costs(**wrong)  # type: ignore[arg-type]
