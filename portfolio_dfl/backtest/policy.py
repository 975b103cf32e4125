"""What a strategy is to the backtest, and how its decisions are rolled through time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.backtest.frames import equal_weights, require_fully_invested, require_returns
from portfolio_dfl.backtest.leaving import drifted, membership, open_through, require_members, sold
from portfolio_dfl.backtest.rebalancing import Rebalance, Rebalancing
from portfolio_dfl.errors import AllocationError, BacktestError, TrainingError

__all__ = ["Decision", "Policy", "roll"]

FloatArray = NDArray[np.float64]


@runtime_checkable
class Policy(Protocol):
    """A strategy. It sees returns up to and including the date on which it is asked, and what it holds."""

    @property
    def name(self) -> str:
        """How tables and reports call the strategy."""

    def fit(self, history: pd.DataFrame) -> None:
        """Learn from ``history`` (returns ≤ t); called at the first decision and at every retraining date."""

    def decide(self, history: pd.DataFrame, held: FloatArray) -> FloatArray | None:
        """Target weights [N] at close t from returns ≤ t and the weights held; None places no order."""


@dataclass(frozen=True)
class Decision:
    """What happened on one decision date.

    Attributes
    ----------
    date : Timestamp
        Close at which the decision was taken.
    held : array, shape (N,)
        Weights held before it.
    target : array, shape (N,)
        Weights wanted after it; equal to ``held`` where nothing was ordered.
    refit : bool
        Whether the policy was asked to learn on this date.
    failed : {"fit", "decide"} or None
        What failed, if anything did; a failed decision holds what is held.
    message : str
        The error's message, empty without one.
    """

    date: pd.Timestamp
    held: FloatArray
    target: FloatArray
    refit: bool
    failed: Literal["fit", "decide"] | None = None
    message: str = ""


def roll(
    policy: Policy,
    returns: pd.DataFrame,
    *,
    start: str | pd.Timestamp | None = None,
    end: str | pd.Timestamp | None = None,
    retrain_every: int | pd.DatetimeIndex = 20,
    rebalance: Rebalance = "daily",
    initial: FloatArray | None = None,
    lag: int = 0,
    members: pd.DataFrame | None = None,
    cash: str | None = None,
    on_decision: Callable[[Decision], None] | None = None,
) -> pd.DataFrame:
    """Ask a policy for weights at every decision date from ``start`` to ``end``.

    At each decision date t the policy receives ``returns.loc[:t]`` and the weights held at that close: its last
    target, drifted by the returns since. Between decision dates nothing is traded. On the first of them and every
    ``retrain_every`` of them after it, ``fit`` comes first. An allocation or training that fails
    (``AllocationError``, ``TrainingError``, weights that are not finite) holds what is held, is handed to
    ``on_decision`` and does not stop the walk; any other error does. Without ``on_decision`` a warning tells how many
    failed, and why the first did.

    Parameters
    ----------
    policy : Policy
        The strategy.
    returns : DataFrame, shape (T, N)
        Simple returns, one column an asset.
    start, end : date, optional
        Span of the decision dates, both included; by default that of ``returns``.
    retrain_every : int or DatetimeIndex
        Number of decision dates from one ``fit`` to the next, whatever lies between them; or those on which is
        fitted.
    rebalance : str, int, sequence of dates or Rebalancing
        Which dates are decision dates: ``"daily"``, ``"weekly"``, ``"monthly"``, ``"quarterly"`` (the last session by
        weekdays; a :class:`~portfolio_dfl.backtest.Rebalancing` takes an exchange calendar, or the first session),
        every so many rows, or the dates themselves.
    initial : array, shape (N,), optional
        Weights held at the first decision; 1/N by default, as in :func:`~portfolio_dfl.backtest.run_ledger`.
    lag : {0, 1}
        Execution lag of the ledger that the weights are for. With 0 a decision is traded at the close at
        which it is taken. With 1 it is traded one close later, so that of decisions a day apart the weights held
        are the previous target, just executed.
    members : DataFrame of bool, shape (T, N), optional
        Whether an asset may be held at the close of a date, as in :func:`~portfolio_dfl.backtest.run_ledger`: what left
        is sold before the policy is asked. The policy is given the returns with their gaps.
    cash : str, optional
        Asset that takes what is sold so; by default the others held do.
    on_decision : callable, optional
        Called with the :class:`Decision` of every date; ``list.append`` collects them.

    Returns
    -------
    DataFrame, shape (decisions, N)
        Target weights. Where nothing was ordered the row repeats the held weights (with ``lag=1``, when
        what will be held at execution is not known yet, it is NaN: no order).

    Raises
    ------
    BacktestError
        If the returns are not clean, there is no decision date, or a policy returns weights of the wrong
        shape.
    """
    may_hold = membership(members, returns)
    require_returns(returns, may_hold)
    if isinstance(retrain_every, int) and retrain_every < 1:
        raise BacktestError(f"retrain_every must be at least 1 decision, got {retrain_every}")
    if lag not in (0, 1):
        raise BacktestError(f"lag must be 0 or 1 close, got {lag}")
    n_assets = returns.shape[1]
    held = equal_weights(n_assets) if initial is None else np.array(initial, dtype=np.float64)
    if held.shape != (n_assets,):
        raise BacktestError(f"initial weights have shape {held.shape}, there are {n_assets} assets")
    require_fully_invested(held, "initial weights")
    decided = _decision_dates(pd.DatetimeIndex(returns.index), start, end, Rebalancing.of(rebalance))
    places = returns.index.get_indexer(decided)
    numbers = {int(place): number for number, place in enumerate(places)}

    values = returns.to_numpy(dtype=np.float64)
    into = None if cash is None else list(returns.columns).index(cash)
    if may_hold is not None:
        values = np.where(open_through(may_hold), values, 0.0)
    fitted = set(decided[::retrain_every] if isinstance(retrain_every, int) else retrain_every)
    rows = np.empty((len(places), n_assets))
    position, pending = held, None
    lost: list[Decision] = []
    for today in range(places[0], places[-1] + 1):
        held = position
        if today > places[0]:
            held = drift_weights(position, values[today]) if may_hold is None else drifted(position, values[today])[0]
        if pending is not None:
            held, pending = pending, None
        here = None if may_hold is None else may_hold[today]
        held = sold(held, here, None if today == places[0] else into)
        count = numbers.get(today)
        if count is None:
            position = held
            continue
        decision = _decide(policy, returns.iloc[: today + 1], held, refit=decided[count] in fitted)
        what = f"the weights of {policy.name} on {decided[count].date()}"
        require_members(decision.target, here, list(map(str, returns.columns)), what)
        if on_decision is not None:
            on_decision(decision)
        elif decision.failed:
            lost.append(decision)
        order = None if decision.target is decision.held else decision.target
        if lag == 0:
            position = rows[count] = decision.target
        else:
            position, pending = held, order
            rows[count] = np.nan if order is None else order
    if lost:
        warnings.warn(
            f"{len(lost)} of {len(rows)} decisions of {policy.name} failed and held what was held, the first on "
            f"{lost[0].date.date()}: {lost[0].message}",
            stacklevel=2,
        )
    return pd.DataFrame(rows, index=decided, columns=returns.columns)


def _decide(policy: Policy, history: pd.DataFrame, held: FloatArray, refit: bool) -> Decision:
    """One date: learn if it is time, decide, and hold if either fails."""
    date = history.index[-1]
    failed: Literal["fit", "decide"] | None = None
    message = ""
    if refit:
        try:
            policy.fit(history)
        except (AllocationError, TrainingError) as error:
            failed, message = "fit", str(error)
    try:
        answer = policy.decide(history, held.copy())
    except (AllocationError, TrainingError) as error:
        return Decision(date, held, held, refit, failed or "decide", message or str(error))
    if answer is None:
        return Decision(date, held, held, refit, failed, message)
    target = np.array(answer, dtype=np.float64)
    if target.shape != held.shape:
        raise BacktestError(
            f"{policy.name} decided on {date.date()} with weights of shape {target.shape}, "
            f"there are {held.size} assets: return one weight an asset, or None to hold"
        )
    if not np.isfinite(target).all():
        return Decision(
            date,
            held,
            held,
            refit,
            failed or "decide",
            message or f"weights are not finite: {target.tolist()}",
        )
    require_fully_invested(target, f"the weights of {policy.name} on {date.date()}")
    return Decision(date, held, target, refit, failed, message)


def _decision_dates(
    rows: pd.DatetimeIndex,
    start: str | pd.Timestamp | None,
    end: str | pd.Timestamp | None,
    rebalancing: Rebalancing,
) -> pd.DatetimeIndex:
    """Decision dates among the rows; BacktestError where there is none."""
    span = (None if date is None else pd.Timestamp(date) for date in (start, end))
    decided = rebalancing.dates(rows, *span)
    if len(decided) == 0:
        covered = f"{rows[0].date()} to {rows[-1].date()}" if len(rows) else "nothing"
        rule = "" if rebalancing.rule == "daily" else f", decided {rebalancing}"
        raise BacktestError(f"no decision date from {start} to {end}: the returns cover {covered}{rule}")
    return decided
