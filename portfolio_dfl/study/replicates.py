"""Seeds of a study that repeat one another: found before anything is computed, and told in the result."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.strategies.table import Lane, by_strategy
from portfolio_dfl.wording import listed

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Ledger
    from portfolio_dfl.training.policies import PredictOptimisePolicy

__all__ = ["find_replicates", "replicate_remarks", "trials_that_differ"]


def find_replicates(policies: Mapping[Lane, PredictOptimisePolicy], history: pd.DataFrame) -> dict[Lane, Lane]:
    """Lanes whose seed changes nothing, each with the lane of its strategy that computes for it; said on the log.

    Parameters
    ----------
    policies : mapping of Lane to PredictOptimisePolicy
        Not yet trained.
    history : DataFrame
        Returns up to the first retraining.
    """
    found: dict[Lane, Lane] = {}
    for mine in by_strategy(list(policies)).values():
        if len(mine) > 1 and _nothing_is_drawn(policies[mine[0]], [lane.seed or 0 for lane in mine], history):
            found |= dict.fromkeys(mine[1:], mine[0])
    if found:
        logging.getLogger(__name__).warning(
            "training.seeds: nothing random enters %s (no random start, no dropout, no sampled loss), so that seeds %s "
            "repeat seed %s and are not computed again; for seeds that differ set forecasting.options.start above 0",
            listed(list(by_strategy(list(found)))),
            listed(list(dict.fromkeys(str(lane.seed) for lane in found))),
            next(iter(found.values())).seed,
        )
    return found


def _nothing_is_drawn(policy: PredictOptimisePolicy, seeds: Sequence[int], history: pd.DataFrame) -> bool:
    from portfolio_dfl.training.replicates import are_replicates

    return are_replicates(policy.task(history), seeds[1])


def replicate_remarks(lanes: Sequence[Lane], ledgers: Mapping[str, Ledger]) -> list[str]:
    """A sentence where all seeds of trained strategies have the same books."""
    repeated = {
        label: mine
        for label, mine in by_strategy([lane for lane in lanes if lane.trained]).items()
        if len(mine) > 1 and len(trials_that_differ(mine, ledgers)) == 1
    }
    if not repeated:
        return []
    seeds = listed([str(lane.seed) for lane in next(iter(repeated.values()))])
    return [
        f"Seeds {seeds} of {listed(list(repeated))} have the very same books: they are replicates, and one trial each "
        "strategy."
    ]


def trials_that_differ(lanes: Sequence[Lane], ledgers: Mapping[str, Ledger]) -> list[Lane]:
    """The lanes without those whose net returns are the very same as an earlier one's."""
    kept: list[Lane] = []
    returns: list[np.ndarray] = []
    for lane in lanes:
        net = ledgers[lane.label].net_returns.to_numpy(dtype=np.float64)
        if not any(np.array_equal(net, other) for other in returns):
            kept.append(lane)
            returns.append(net)
    return kept
