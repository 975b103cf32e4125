"""What is left of a Sharpe ratio once the trials that it was picked from are counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from portfolio_dfl.backtest.evaluation import is_constant, per_period_rate
from portfolio_dfl.backtest.frames import require_net_returns
from portfolio_dfl.backtest.rhythm import resolved_periods_per_year
from portfolio_dfl.errors import BacktestError

__all__ = ["deflated_sharpe", "deflated_sharpe_of_moments", "expected_best_sharpe"]


def deflated_sharpe(
    net_returns: pd.Series[float],
    trial_sharpes: Sequence[float],
    *,
    earlier_trials: int = 0,
    risk_free: float = 0.0,
    periods_per_year: float | None = None,
) -> float:
    """Probability that the true Sharpe ratio is above what the best of that many worthless trials would show.

    Bailey and López de Prado (2014), "The Deflated Sharpe Ratio".

    Parameters
    ----------
    net_returns : Series
        Net returns of the strategy that was picked.
    trial_sharpes : sequence of float
        Annualised Sharpe ratios of *all* configurations tried, the picked one included. Their number is the
        number of trials, and their variance says how different the trials were.
    earlier_trials : int
        Trials on the same days whose Sharpe ratios are no longer known; they count, and are taken to have
        been as different from one another as the others.
    risk_free, periods_per_year : float
        As in :func:`~portfolio_dfl.backtest.evaluation.performance`.

    Returns
    -------
    float
        In [0, 1]; with one trial the probabilistic Sharpe ratio against 0; NaN where the Sharpe ratio does
        not exist.
    """
    from scipy import stats

    values = net_returns.to_numpy(dtype=np.float64)
    trials = np.asarray(trial_sharpes, dtype=np.float64)
    if trials.size == 0 or not np.isfinite(trials).all():
        raise BacktestError(f"trial_sharpes must hold a finite Sharpe ratio a trial, got {trials.tolist()}")
    if earlier_trials < 0:
        raise BacktestError(f"earlier_trials must be 0 or more, got {earlier_trials}")
    require_net_returns(net_returns)
    if len(values) < 2 or is_constant(values):
        return math.nan
    per_year = resolved_periods_per_year(periods_per_year, net_returns.index)
    excess = values - per_period_rate(risk_free, per_year)
    return deflated_sharpe_of_moments(
        sharpe=float(excess.mean() / excess.std(ddof=1)),
        observations=len(excess),
        skewness=float(stats.skew(excess)),
        kurtosis=float(stats.kurtosis(excess, fisher=False)),
        trials=trials.size + earlier_trials,
        trial_spread=float(trials.std(ddof=1) / math.sqrt(per_year)) if trials.size > 1 else 0.0,
    )


def deflated_sharpe_of_moments(
    *, sharpe: float, observations: int, skewness: float, kurtosis: float, trials: int, trial_spread: float
) -> float:
    """The deflated Sharpe ratio from a strategy's moments; Sharpe ratios here are per period, not annualised.

    Parameters
    ----------
    sharpe : float
        Sharpe ratio of the picked strategy.
    observations : int
        Number of returns it was measured on.
    skewness, kurtosis : float
        Of those returns; the kurtosis of a normal distribution is 3.
    trials : int
        Number of (independent) trials.
    trial_spread : float
        Standard deviation of the trials' Sharpe ratios.
    """
    from scipy import stats

    hurdle = expected_best_sharpe(trials, trial_spread)
    variance = 1.0 - skewness * sharpe + 0.25 * (kurtosis - 1.0) * sharpe**2
    return float(stats.norm.cdf((sharpe - hurdle) * math.sqrt((observations - 1) / variance)))


def expected_best_sharpe(trials: int, trial_spread: float) -> float:
    """Sharpe ratio that the best of ``trials`` worthless strategies is expected to show.

    False strategy theorem of Bailey and López de Prado (2014); 0 for one trial. In the units of
    ``trial_spread``.
    """
    from scipy import stats

    if trials < 1:
        raise BacktestError(f"there is at least one trial, got {trials}")
    if trials == 1:
        return 0.0
    typical = float(stats.norm.ppf(1.0 - 1.0 / trials))
    extreme = float(stats.norm.ppf(1.0 - 1.0 / (trials * math.e)))
    return float(trial_spread * ((1.0 - np.euler_gamma) * typical + np.euler_gamma * extreme))
