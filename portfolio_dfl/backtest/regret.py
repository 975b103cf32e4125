"""How far decisions were from the best ones in hindsight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from portfolio_dfl.backtest.constrained import FirstStep, Risk
from portfolio_dfl.backtest.ledger import Ledger
from portfolio_dfl.data.returns import compounded
from portfolio_dfl.errors import AllocationError, BacktestError
from portfolio_dfl.risk import CovarianceEstimator, FactorCovariance, RollingCovariance, covariance_pieces
from portfolio_dfl.risk.factor_path import FactorEstimator, factor_pieces, in_parts

if TYPE_CHECKING:
    from portfolio_dfl.allocation.limits import Limit

__all__ = ["decision_regret"]

FloatArray = NDArray[np.float64]


def decision_regret(
    ledger: Ledger,
    returns: pd.DataFrame,
    *,
    risk_aversion: float,
    turnover_limit: float = np.inf,
    limits: Sequence[Limit] = (),
    realised: CovarianceEstimator | None = None,
    solver: str = "auto",
    stage: int = 1,
    decisions: pd.DatetimeIndex | None = None,
) -> pd.DataFrame:
    """Realised loss of every day's weights, above the least loss that was possible from what was held.

    The loss of a day is the paper's, for the one step that is traded: ``−rᵀw + λ/2 wᵀΣw`` with the day's
    return r and the covariance Σ realised from that day on. The best weights know both and obey the same
    rules: long only, fully invested, ‖w − held‖₁ ≤ turnover limit, limits of weights. Costs are left out on both
    sides.

    Where a decision is for a stage of several days, and is not taken every day, name both: a decision is then judged
    once, by the return compounded over the stage and its covariance, that of a day times the stage's days.

    Parameters
    ----------
    ledger : Ledger
        Books of a strategy, without cash.
    returns : DataFrame, shape (T, N)
        The returns the books were kept with.
    risk_aversion : float
        λ.
    turnover_limit : float
        τ; ``inf`` for none.
    limits : sequence of Limit
        Of weights.
    realised : CovarianceEstimator, optional
        Estimator of the realised covariance; its window starts at the day. By default the sample covariance
        of 20 days, as in the labels of training.
    solver : str
        Solver of the portfolio layer.
    stage : int
        Days of one stage.
    decisions : DatetimeIndex, optional
        Days of the ledger that are judged, those that open with a decision's trade; all by default.

    Returns
    -------
    DataFrame
        ``loss``, ``best_loss`` and ``regret`` (their difference, not negative but for the solver's
        accuracy, as long as the strategy obeys the limit at execution), one row a day of the ledger whose
        realised covariance is known and on which some weights within the limits could be reached.

    Raises
    ------
    AllocationError
        If on no day any could.
    BacktestError
        If the ledger holds cash or other assets than the returns, or no day's realised covariance is known.
    """
    estimator = RollingCovariance(20, ridge=0.0) if realised is None else realised
    if ledger.holds_cash:
        raise BacktestError("regret is defined for fully invested portfolios; this ledger holds cash")
    if not ledger.trades.columns.equals(returns.columns):
        raise BacktestError("the ledger and the returns are not for the same assets in the same order")
    first_step = FirstStep(
        risk_aversion=risk_aversion,
        turnover_limit=turnover_limit,
        limits=limits,
        solver=solver,
        assets=list(map(str, returns.columns)),
    )
    pieces, first = [], 0
    stages = pd.DataFrame(
        compounded(returns.to_numpy(dtype=np.float64), stage),
        index=returns.index[: max(len(returns) - stage + 1, 0)],
        columns=returns.columns,
    )
    judged = ledger.weights.index.intersection(stages.index)
    if decisions is not None:
        judged = judged.intersection(decisions)
    for dates, risk in _pieces(returns, estimator):
        # The window whose last return is the k-th of the path starts with the k-th return.
        starts = returns.index[first : first + len(dates)]
        first += len(dates)
        days = judged.intersection(starts)
        if len(days) == 0:
            continue
        covariance = _scaled(risk, starts.get_indexer(days), stage)
        realised_returns = stages.loc[days].to_numpy(dtype=np.float64)
        weights = ledger.weights.loc[days].to_numpy(dtype=np.float64)
        held = weights - ledger.trades.loc[days].to_numpy(dtype=np.float64)
        best = _best_weights(first_step, realised_returns, covariance, held)
        loss = _loss(weights, realised_returns, covariance, risk_aversion)
        best_loss = _loss(best, realised_returns, covariance, risk_aversion)
        pieces.append(pd.DataFrame({"loss": loss, "best_loss": best_loss, "regret": loss - best_loss}, index=days))
    if not pieces:
        raise BacktestError(
            f"no decision has the {max(estimator.window, stage)} returns after it that its regret needs"
        )
    table = pd.concat(pieces).dropna()
    if table.empty:
        raise AllocationError("on no day can weights within the limits be reached from those held")
    return table


def _pieces(returns: pd.DataFrame, estimator: CovarianceEstimator) -> Iterator[tuple[pd.DatetimeIndex, Risk]]:
    if in_parts(estimator, returns.shape[1]):
        assert isinstance(estimator, FactorEstimator)
        yield from factor_pieces(returns, estimator)
        return
    for piece in covariance_pieces(returns, estimator):
        yield piece.dates, piece.covariance


def _scaled(risk: Risk, chosen: NDArray[np.intp], stage: int) -> Risk:
    """Covariances of some of the dates, of a stage."""
    if isinstance(risk, FactorCovariance):
        return risk[torch.from_numpy(chosen)].scaled(stage)
    return risk[chosen] * stage


def _best_weights(first_step: FirstStep, returns: FloatArray, covariance: Risk, held: FloatArray) -> FloatArray:
    """Best weights [T, N] of every day; NaN where none within the limits can be reached from those held."""
    try:
        return first_step.many(returns[:, None], covariance, held)
    except AllocationError:  # names one day; the others are found one by one
        best = np.full_like(returns, np.nan)
        for day in range(len(returns)):
            with suppress(AllocationError):
                one = _scaled(covariance, np.array([day]), 1)
                best[day] = first_step.many(returns[day][None, None], one, held[day][None])[0]
        return best


def _loss(weights: FloatArray, returns: FloatArray, covariance: Risk, risk_aversion: float) -> FloatArray:
    """−rᵀw + λ/2 wᵀΣw of every row."""
    if isinstance(covariance, FactorCovariance):
        variance = (weights * covariance.times(torch.tensor(weights)).numpy()).sum(axis=1)
    else:
        variance = np.einsum("ti,tij,tj->t", weights, covariance, weights)
    loss: FloatArray = 0.5 * risk_aversion * variance - (weights * returns).sum(axis=1)
    return loss
