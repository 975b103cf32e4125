"""Metrics of the user's own: columns beside ours, refused where they give no number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.backtest import Ledger, run_ledger
from portfolio_dfl.backtest.costs import cost_levels
from portfolio_dfl.backtest.evaluation import METRICS, performance_table
from portfolio_dfl.backtest.own_metric import OwnMetric
from portfolio_dfl.errors import BacktestError


class Lowest:
    """A quantile of net returns."""

    def __init__(self, level: float) -> None:
        self.level = level

    def __call__(self, ledger: Ledger) -> float:
        return float(ledger.net_returns.quantile(self.level))


def paid(ledger: Ledger) -> float:
    return float(ledger.daily["cost"].sum())


def words(ledger: Ledger) -> str:
    return "many"


def nothing(ledger: Ledger) -> float:
    return float(ledger.missing)  # type: ignore[attr-defined]


def own(part: str, **options: object) -> OwnMetric:
    return OwnMetric(f"{__name__}:{part}", options)


@pytest.fixture(scope="module")
def book() -> Ledger:
    dates = pd.bdate_range("2020-01-01", periods=40)
    returns = pd.DataFrame(np.random.default_rng(2).normal(0.0, 0.01, (40, 2)), index=dates, columns=["A", "B"])
    targets = pd.DataFrame([[0.5, 0.5]] * 30, index=dates[:30], columns=["A", "B"])
    return run_ledger(targets, returns, cost_rate=1e-3, name="Even")


def test_own_metrics_are_columns_behind_ours_at_every_cost(book: Ledger) -> None:
    metrics = {metric.column: metric for metric in (own("paid"), own("Lowest", level=0.1))}
    table = performance_table([book], own=metrics)
    assert list(table.columns) == [*METRICS, "paid", "Lowest"]
    assert table.loc["Even", "Lowest"] == np.quantile(book.net_returns, 0.1)
    levels = cost_levels([book], [0.0, 1e-3], own=metrics)["paid"]
    assert levels.loc["Even", 0.0] == 0.0 < levels.loc["Even", 1e-3] == table.loc["Even", "paid"]
    assert list(performance_table([book]).columns) == list(METRICS)


@pytest.mark.parametrize(
    ("part", "message"),
    [("words", "gave 'many'; one number is needed"), ("nothing", "raised AttributeError for the ledger of Even")],
)
def test_one_that_gives_no_number_is_named(part: str, message: str, book: Ledger) -> None:
    with pytest.raises(BacktestError, match=message):
        own(part)(book)


def test_options_that_do_not_fit_are_named() -> None:
    with pytest.raises(BacktestError, match="was given no options"):
        own("Lowest")
