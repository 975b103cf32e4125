"""What a strategy is to the backtest, and how its decisions are rolled through time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.backtest.frames import equal_weights, require_fully_invested, require_returns
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
    retrain_every: int = 20,
    initial: FloatArray | None = None,
    lag: int = 0,
    on_decision: Callable[[Decision], None] | None = None,
) -> pd.DataFrame:
    """Ask a policy for weights at every date from ``start`` to ``end``.

    At each date t the policy receives ``returns.loc[:t]`` and the weights held at that close: its last
    target, drifted by the return of t. On the first date and every ``retrain_every`` dates after it,
    ``fit`` comes first. An allocation or training that fails (``AllocationError``, ``TrainingError``,
    weights that are not finite) holds what is held, is handed to ``on_decision`` and does not stop the
    walk; any other error does.

    Parameters
    ----------
    policy : Policy
        The strategy.
    returns : DataFrame, shape (T, N)
        Simple returns, one column an asset.
    start, end : date, optional
        First and last decision date, both included; by default those of ``returns``.
    retrain_every : int
        Number of decision dates from one ``fit`` to the next.
    initial : array, shape (N,), optional
        Weights held at the first decision; 1/N by default, as in :func:`~portfolio_dfl.backtest.run_ledger`.
    lag : {0, 1}
        Execution lag of the ledger that the weights are for. With 0 a decision is traded at the close at
        which it is taken. With 1 it is traded one close later, so that the weights held at a decision are
        the previous target, just executed.
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
    require_returns(returns)
    if retrain_every < 1:
        raise BacktestError(f"retrain_every must be at least 1 decision, got {retrain_every}")
    if lag not in (0, 1):
        raise BacktestError(f"lag must be 0 or 1 close, got {lag}")
    n_assets = returns.shape[1]
    held = equal_weights(n_assets) if initial is None else np.array(initial, dtype=np.float64)
    if held.shape != (n_assets,):
        raise BacktestError(f"initial weights have shape {held.shape}, there are {n_assets} assets")
    require_fully_invested(held, "initial weights")
    first, last = _decision_range(returns.index, start, end)

    values = returns.to_numpy(dtype=np.float64)
    rows = np.empty((last - first, n_assets))
    position, pending = held, None
    for count, today in enumerate(range(first, last)):
        held = position if count == 0 else drift_weights(position, values[today])
        if pending is not None:
            held = pending
        decision = _decide(policy, returns.iloc[: today + 1], held, refit=count % retrain_every == 0)
        if on_decision is not None:
            on_decision(decision)
        order = None if decision.target is decision.held else decision.target
        if lag == 0:
            position = rows[count] = decision.target
        else:
            position, pending = held, order
            rows[count] = np.nan if order is None else order
    return pd.DataFrame(rows, index=returns.index[first:last], columns=returns.columns)


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


def _decision_range(
    dates: pd.Index[pd.Timestamp], start: str | pd.Timestamp | None, end: str | pd.Timestamp | None
) -> tuple[int, int]:
    """Positions of the first decision date and of the one after the last."""
    first = 0 if start is None else int(dates.searchsorted(pd.Timestamp(start), side="left"))
    last = len(dates) if end is None else int(dates.searchsorted(pd.Timestamp(end), side="right"))
    if first >= last:
        covered = f"{dates[0].date()} to {dates[-1].date()}" if len(dates) else "nothing"
        raise BacktestError(f"no decision date from {start} to {end}: the returns cover {covered}")
    return first, last
