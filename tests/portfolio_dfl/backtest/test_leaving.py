"""Assets that leave a universe: books computed by hand, and walks that agree with them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.allocation import Costs
from portfolio_dfl.backtest import roll, run_ledger
from portfolio_dfl.backtest.leaving import sold
from portfolio_dfl.errors import BacktestError

DATES = pd.bdate_range("2024-01-01", periods=5)
NAN = float("nan")


def frame(rows: list[tuple[float, ...]], columns: str = "ABCD") -> pd.DataFrame:
    return pd.DataFrame(rows, index=DATES[: len(rows)], columns=list(columns))


#: B leaves after the second close and is sold at its last price; C after the third, with a delisting return of −100 %;
#: D enters at the third. Before it enters and after it left, there is no return of an asset.
RETURNS = frame(
    [
        (0.0, 0.0, 0.0, NAN),
        (0.1, -0.1, 0.0, NAN),
        (0.0, 0.0, 0.2, NAN),
        (0.0, NAN, -1.0, 0.3),
        (0.0, NAN, NAN, 0.1),
    ]
)
MEMBERS = frame(
    [
        (True, True, True, False),
        (True, True, True, False),
        (True, False, True, True),
        (True, False, False, True),
        (True, False, False, True),
    ]
)
TARGETS = pd.DataFrame([(1 / 3, 1 / 3, 1 / 3, 0.0), (0.5, 0.0, 0.0, 0.5)], index=DATES[[0, 3]], columns=RETURNS.columns)


def test_the_books_are_those_computed_by_hand() -> None:
    ledger = run_ledger(TARGETS, RETURNS, members=MEMBERS, cost_rate=0.01)
    # Opened with a third in A, B and C each, as was decided: nothing is traded.
    a, b, c = 1.1 / 3, 0.9 / 3, 1.0 / 3
    wealth = [a + b + c]
    # The last return of B was the day before; it is sold at the close, at its price of then. C gains a fifth.
    c *= 1.2
    wealth.append(a + b + c)
    turnover = 2 * b / wealth[1]  # what B brings is bought of A and C, as they are held
    share = a / (a + c)
    paid = wealth[1] * (1.0 - 0.01 * turnover)
    # C is lost altogether: it is worth nothing where it would be sold, so that leaving costs nothing.
    wealth.append(paid * share)
    # Half of A is sold for D.
    wealth.append(wealth[2] * (1.0 - 0.01 * 1.0) * (0.5 + 0.5 * 1.1))
    np.testing.assert_allclose(ledger.daily["wealth"], wealth, rtol=1e-14)
    np.testing.assert_allclose(ledger.daily["turnover"], [0.0, 0.0, turnover, 1.0], atol=1e-15)
    np.testing.assert_allclose(ledger.weights.iloc[2], [share, 0.0, 1.0 - share, 0.0], rtol=1e-14)
    np.testing.assert_allclose(ledger.trades.iloc[3], [-0.5, 0.0, 0.0, 0.5], rtol=1e-14)
    np.testing.assert_allclose(ledger.weights.sum(axis=1), 1.0, rtol=1e-14)


def test_what_is_sold_goes_into_cash_where_an_asset_is_cash() -> None:
    ledger = run_ledger(TARGETS.iloc[:1], RETURNS, members=MEMBERS, costs=Costs(rate=0.01, cash="A"))
    b, total = 0.9 / 3, 0.9 / 3 + 1.1 / 3 + 1.2 / 3
    assert ledger.daily["turnover"].iloc[2] == pytest.approx(b / total, rel=1e-14)
    np.testing.assert_allclose(ledger.weights["A"].iloc[2:], [1.0 - 0.4 / total, 1.0], rtol=1e-14)


def test_what_is_sold_goes_into_cash_that_is_kept_beside() -> None:
    ledger = run_ledger(TARGETS.iloc[:1], RETURNS, members=MEMBERS, cost_rate=0.01, cash=0.0)
    total = 0.9 / 3 + 1.1 / 3 + 1.2 / 3
    assert ledger.weights["cash"].iloc[2] == pytest.approx(0.3 / total, rel=1e-14)
    assert ledger.trades.iloc[2].tolist() == pytest.approx([0.0, -0.3 / total, 0.0, 0.0], rel=1e-14)


def test_an_order_that_is_carried_out_a_close_late_buys_nothing_that_left_in_between() -> None:
    targets = pd.DataFrame([(0.5, 0.5, 0.0, 0.0)], index=DATES[[1]], columns=RETURNS.columns)
    ledger = run_ledger(targets, RETURNS, members=MEMBERS, lag=1)
    np.testing.assert_allclose(ledger.weights.iloc[1], [1.0, 0.0, 0.0, 0.0], rtol=1e-15)


def test_the_last_holding_that_leaves_is_put_equally_into_the_members() -> None:
    targets = pd.DataFrame([(0.0, 1.0, 0.0, 0.0)], index=DATES[[0]], columns=RETURNS.columns)
    ledger = run_ledger(targets, RETURNS, members=MEMBERS)
    np.testing.assert_allclose(ledger.weights.iloc[2], [1 / 3, 0.0, 1 / 3, 1 / 3], rtol=1e-15)


def test_a_universe_that_does_not_change_has_the_books_of_none() -> None:
    rng = np.random.default_rng(0)
    returns = frame(rng.normal(0.0, 0.02, (5, 4)).tolist())
    targets = pd.DataFrame(rng.dirichlet(np.ones(4), 3), index=DATES[:3], columns=returns.columns)
    plain = run_ledger(targets, returns, cost_rate=0.001)
    changing = run_ledger(targets, returns, cost_rate=0.001, members=returns.notna())
    pd.testing.assert_frame_equal(plain.daily, changing.daily, rtol=1e-12)


@pytest.mark.parametrize("lag", [0, 1])
def test_a_walk_holds_what_the_books_hold(lag: int) -> None:
    class Half:
        name = "half of what is held, the rest equally"

        def __init__(self) -> None:
            self.seen: list[np.ndarray] = []

        def fit(self, history: pd.DataFrame) -> None:
            """Nothing is learned."""

        def decide(self, history: pd.DataFrame, held: np.ndarray) -> np.ndarray | None:
            self.seen.append(held)
            there = MEMBERS.loc[history.index[-1]].to_numpy()
            return None if len(history) == 3 else 0.5 * held + 0.5 * there / there.sum()

    policy = Half()
    targets = roll(policy, RETURNS, members=MEMBERS, lag=lag)
    ledger = run_ledger(targets, RETURNS, members=MEMBERS, lag=lag, cost_rate=0.01)
    if lag:  # what is decided at a close is not traded there: what is held goes through the next day
        expected = list(ledger.weights.to_numpy())
    else:
        drifted = (ledger.weights - ledger.trades).to_numpy()
        expected = [sold(row, there) for row, there in zip(drifted, MEMBERS.to_numpy(), strict=False)]
    np.testing.assert_allclose(policy.seen[:4], expected, atol=1e-15)


def test_a_walk_is_fitted_on_the_dates_that_are_given() -> None:
    fitted = []

    class Counting:
        name = "counting"

        def fit(self, history: pd.DataFrame) -> None:
            fitted.append(history.index[-1])

        def decide(self, history: pd.DataFrame, held: np.ndarray) -> None:
            return None

    roll(Counting(), RETURNS, members=MEMBERS, retrain_every=DATES[[0, 3]])
    assert fitted == [DATES[0], DATES[3]]


def test_weights_of_what_is_no_member_are_refused() -> None:
    targets = pd.DataFrame([(0.5, 0.0, 0.0, 0.5)], index=DATES[[0]], columns=RETURNS.columns)
    with pytest.raises(BacktestError, match=r"target weights of 2024-01-01 hold 0.5 of D, which is no member then"):
        run_ledger(targets, RETURNS, members=MEMBERS)


def test_returns_of_members_are_asked_for_and_a_total_loss_is_the_last_of_them() -> None:
    lacking = RETURNS.copy()
    lacking.loc[DATES[2], "C"] = NAN
    with pytest.raises(BacktestError, match=r"C returned nan on 2024-01-03"):
        run_ledger(TARGETS, lacking, members=MEMBERS)
    lost = RETURNS.copy()
    lost.loc[DATES[2], "C"] = -1.0
    with pytest.raises(BacktestError, match=r"C returned -1.0 on 2024-01-03"):
        run_ledger(TARGETS, lost, members=MEMBERS)


def test_members_are_of_all_dates_and_true_or_false() -> None:
    with pytest.raises(BacktestError, match="members lack 1 dates of the returns"):
        run_ledger(TARGETS, RETURNS, members=MEMBERS.iloc[:-1])
    with pytest.raises(BacktestError, match="members are true or false"):
        run_ledger(TARGETS, RETURNS, members=MEMBERS.astype(float))
