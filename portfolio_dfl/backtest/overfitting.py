"""How often the best of many trials is a poor one out of sample: combinatorially symmetric cross-validation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from portfolio_dfl.errors import BacktestError

__all__ = ["probability_of_overfitting"]


def probability_of_overfitting(returns: pd.DataFrame, *, blocks: int = 8) -> float:
    r"""Share of splits in which the trial that is best in one half ranks in the lower half of all in the other.

    Rows are cut into ``blocks`` blocks of neighbours. Each choice of half of them is once the half that selects, by the
    Sharpe ratio of its rows, and the rest is the half that judges. With rank r of the selected among T trials there
    (1 the worst, ties at their mean), the split counts where the logit of :math:`r / (T + 1)` is at most zero.

    Bailey, Borwein, López de Prado and Zhu (2017), "The Probability of Backtest Overfitting".

    Parameters
    ----------
    returns : DataFrame [rows, trials]
        Net returns of every trial on the same dates, in the order of time; all trials, the bad ones, too.
    blocks : int
        Even. Blocks differ by at most one row in length.

    Returns
    -------
    float
        Between 0 and 1; about one half where selection says nothing.

    Raises
    ------
    BacktestError
        If there are fewer than two trials or two rows a block, ``blocks`` is odd or under two, a return is not finite,
        or a trial does not vary in a half, so that it has no Sharpe ratio.
    """
    if blocks < 2 or blocks % 2:
        raise BacktestError(f"blocks {blocks} is not an even number of two and more; give such as 8")
    rows, trials = returns.shape
    if trials < 2:
        raise BacktestError(f"returns have {trials} trials; overfitting needs at least two, one column each")
    if rows < 2 * blocks:
        raise BacktestError(f"returns have {rows} rows, fewer than two for each of {blocks} blocks; give fewer blocks")
    values = returns.to_numpy(dtype=float)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise BacktestError(f"the return of trial {returns.columns[column]} on {returns.index[row]} is not finite")
    parts = np.array_split(values, blocks)
    worse = 0
    splits = list(combinations(range(blocks), blocks // 2))
    for chosen in splits:
        judging = [place for place in range(blocks) if place not in chosen]
        selecting = _sharpe(np.concatenate([parts[place] for place in chosen]), returns.columns)
        judged = _sharpe(np.concatenate([parts[place] for place in judging]), returns.columns)
        best = judged[int(np.argmax(selecting))]
        rank = 1.0 + float((judged < best).sum()) + 0.5 * float((judged == best).sum() - 1)
        worse += rank <= (trials + 1) / 2
    return worse / len(splits)


def _sharpe(values: np.ndarray, names: pd.Index) -> np.ndarray:
    """Mean over standard deviation of each column [trials]."""
    still = np.ptp(values, axis=0) == 0.0
    if still.any():
        raise BacktestError(
            f"trial {names[int(np.argmax(still))]} does not vary in a half of the rows; it has no Sharpe ratio there"
        )
    return np.asarray(values.mean(axis=0) / values.std(axis=0, ddof=1))
