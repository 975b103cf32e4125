"""What a reader must know of a study whose members change, in words."""

from __future__ import annotations

import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.wording import counted

__all__ = ["universe_remark"]


def universe_remark(universes: pd.DataFrame, config: StudyConfig) -> str:
    """How many were chosen among at a time, and how many waited; and whose past is learned from.

    Parameters
    ----------
    universes : DataFrame
        As of :class:`~portfolio_dfl.study.result.StudyResult`.
    config : StudyConfig
    """
    by_date = universes.groupby("since")["chosen"]
    chosen, waiting = by_date.sum(), by_date.count() - by_date.sum()
    low, high = int(chosen.min()), int(chosen.max())
    waited = universes.loc[~universes["chosen"], "asset"].nunique()
    few = f"{low}" if low == high else f"{low} to {high}"
    told = (
        f"Members change (data.members): {counted(len(by_date), 'universe')} of {few} of "
        f"{counted(universes['asset'].nunique(), 'asset')}, made up every "
        f"{counted(config.training.retrain_every, 'decision')} and after one has left, of the members of the date that "
        "have the history that a decision and its training ask for"
    )
    told += f"; {waited} waited for theirs as members, up to {int(waiting.max())} at a time." if waited else "."
    return f"{told} What is learned from is the past of the members of a date, who had survived to it."
