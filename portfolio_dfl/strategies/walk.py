"""One strategy's walk through the test span: decisions from trained windows, and how good they were.

Pure and picklable, so that walks can run in other processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.data.returns import compounded
from portfolio_dfl.strategies.table import Lane, build_policy

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Policy
    from portfolio_dfl.strategies.members import MemberSettings
    from portfolio_dfl.strategies.setting import StrategySetting
    from portfolio_dfl.training.policies import PredictOptimisePolicy
    from portfolio_dfl.training.window import TrainedWindow

__all__ = ["JUDGED_LATER", "Walk", "WalkTask", "take_walk", "window_frame", "window_metrics"]

#: Columns of :func:`window_frame` that are known only after the window's decisions.
JUDGED_LATER = ("mse", "regret", "shrinkage", "failed_decisions")


def _nothing() -> pd.Series[float]:
    return pd.Series(index=pd.DatetimeIndex([]), dtype=np.float64)


@dataclass(frozen=True)
class WalkTask:
    """What decides a walk's outcome.

    Attributes
    ----------
    setting : StrategySetting
    lane : Lane
    returns : DataFrame, shape (T, N)
        Simple returns up to the last one that a decision earns.
    start, end : Timestamp
        Span of the decision dates.
    retrain_every : int
        Decision dates from one retraining to the next.
    decisions : DatetimeIndex or None
        Dates between them on which is decided; None for all there are.
    lag : {0, 1}
        Of the execution, see :func:`~portfolio_dfl.backtest.roll`.
    windows : sequence of TrainedWindow
        Of a trained strategy, one a retraining date.
    changing : MemberSettings or None
        Of a universe that changes: who is asked about which assets when, in place of the setting.
    """

    setting: StrategySetting
    lane: Lane
    returns: pd.DataFrame
    start: pd.Timestamp
    end: pd.Timestamp
    retrain_every: int
    lag: int = 0
    windows: Sequence[TrainedWindow] = ()
    decisions: pd.DatetimeIndex | None = None
    changing: MemberSettings | None = None


@dataclass(frozen=True)
class Walk:
    """Outcome of a walk.

    Attributes
    ----------
    lane : Lane
    targets : DataFrame
        Target weights by decision date.
    failures : DataFrame
        Decisions that failed and held what was held: ``date``, ``what`` ("fit" or "decide"), ``message``.
    squared_errors : Series
        Mean squared error of each decision's forecasts, where the returns they were about are known.
    """

    lane: Lane
    targets: pd.DataFrame
    failures: pd.DataFrame
    squared_errors: pd.Series[float] = field(default_factory=_nothing)


def take_walk(task: WalkTask) -> Walk:
    """Roll one strategy from start to end."""
    from portfolio_dfl.backtest import Decision, roll
    from portfolio_dfl.backtest.universes import AmongMembers
    from portfolio_dfl.training.policies import PredictOptimisePolicy
    from portfolio_dfl.training.reproducible import reproducible

    changing, start = task.changing, task.setting.start if task.changing is None else task.changing.start
    policy: Policy
    if changing is None:
        policy = build_policy(task.setting, task.lane, task.returns)
        if isinstance(policy, PredictOptimisePolicy):
            policy.adopt(task.windows)
    else:
        policy = changing.policy(task.lane, task.returns, task.windows)
    decisions: list[Decision] = []
    with reproducible(task.lane.seed or 0):
        targets = roll(
            policy,
            task.returns,
            start=task.start,
            end=task.end,
            retrain_every=task.retrain_every if changing is None else changing.reviews,
            rebalance="daily" if task.decisions is None else task.decisions,
            lag=task.lag,
            initial=None if start is None else np.array(start),
            members=None if changing is None else changing.members,
            cash=None if changing is None else task.setting.costs.cash,
            on_decision=decisions.append,
        )
    failures = pd.DataFrame(
        [(made.date, made.failed, made.message) for made in decisions if made.failed],
        columns=["date", "what", "message"],
    )
    parts = policy.parts if isinstance(policy, AmongMembers) else [(tuple(task.returns), policy)]
    errors = [
        _squared_errors(part, task.returns[list(assets)])
        for assets, part in parts
        if isinstance(part, PredictOptimisePolicy)
    ]
    return Walk(task.lane, targets, failures, pd.concat(errors)) if errors else Walk(task.lane, targets, failures)


def window_frame(
    walk: Walk, windows: Sequence[TrainedWindow], regret: pd.Series[float], covariances: pd.DataFrame
) -> pd.DataFrame:
    """One row a retraining: date, failure, losses, health of its gradients, and how its decisions turned out.

    Parameters
    ----------
    walk : Walk
    windows : sequence of TrainedWindow
    regret : Series
        Regret by day of the ledger, the day after the decision.
    covariances : DataFrame
        ``shrinkage`` that the covariance of each decision date received.
    """
    rows = []
    for number, window in enumerate(windows):
        following = windows[number + 1].date if number + 1 < len(windows) else pd.Timestamp.max
        errors = walk.squared_errors
        mine = errors[(errors.index >= window.date) & (errors.index < following)]
        judged = regret[(regret.index > window.date) & (regret.index <= following)]
        shrunk = covariances.loc[(covariances.index >= window.date) & (covariances.index < following), "shrinkage"]
        lost = walk.failures[walk.failures["what"] == "decide"]["date"]
        rows.append(
            {
                "strategy": walk.lane.strategy,
                "seed": walk.lane.seed,
                "window": number,
                "date": window.date,
                "failed": window.failure or "",
                "last_label_end": window.last_label_end,
                **window_metrics(window),
                "mse": float(mine.mean()) if len(mine) else np.nan,
                "regret": float(judged.mean()) if len(judged) else np.nan,
                "shrinkage": float(shrunk.mean()),
                "failed_decisions": float(((lost >= window.date) & (lost < following)).sum()),
            }
        )
    return pd.DataFrame(rows)


def window_metrics(window: TrainedWindow) -> dict[str, float]:
    """Numbers of one trained window, NaN where there are none."""
    from portfolio_dfl.training.learned_factors import read_factors

    logit = (window.state or {}).get("covariance_scaling.shrinkage_logit")
    return {
        "train_loss": window.losses[-1] if window.losses else np.nan,
        "validation_loss": min(window.validation_losses, default=np.nan),
        "epochs": float(len(window.losses)),
        "samples": float(window.n_training),
        "seconds": window.seconds,
        "learned_shrinkage": np.nan if logit is None else float(logit.sigmoid()),
        **{f"learned_{name}": factor for name, factor in read_factors(window.state or {}).items()},
        **window.health.as_dict(),
    }


def _squared_errors(policy: PredictOptimisePolicy, returns: pd.DataFrame) -> pd.Series[float]:
    stage = policy.stage
    values = returns.fillna(0.0).to_numpy(dtype=np.float64)  # of what left, what was held in it earned nothing more
    dates = pd.DatetimeIndex(returns.index)
    errors = {}
    for date, forecast in policy.forecasts.items():
        after = int(dates.searchsorted(date)) + 1
        realised = compounded(values[after : after + len(forecast) * stage], stage)[::stage]
        if len(realised) == len(forecast):
            errors[date] = float(np.square(forecast - realised).mean())
    return pd.Series(errors, index=pd.DatetimeIndex(list(errors)), dtype=np.float64)
