"""What went wrong in a study's trainings: a failure that repeats stops it, starving gradients are told with advice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.strategies.table import Lane, appearance
from portfolio_dfl.wording import counted

if TYPE_CHECKING:
    from portfolio_dfl.training.window import TrainedWindow

__all__ = ["failure_summary", "gradient_remarks", "stop_if_all_fail"]

# So many windows of a strategy that fail alike, and no other one trained: it will not get better.
_FIRST_WINDOWS = 3


def stop_if_all_fail(outcome: Mapping[tuple[Lane, int], TrainedWindow], lane: Lane) -> None:
    """Stop a study whose first windows all failed with the same kind of error.

    Raises
    ------
    TrainingError
        With the reason of the first, once.
    """
    mine = {number: window for (other, number), window in outcome.items() if other == lane}
    first = [mine[number] for number in range(_FIRST_WINDOWS) if number in mine]
    if len(first) < _FIRST_WINDOWS or any(not window.failed for window in mine.values()):
        return
    if len({_kind(window) for window in first}) == 1:
        raise TrainingError(
            f"the first {_FIRST_WINDOWS} trainings of {lane.label}, from {first[0].date.date()} on, failed alike, "
            f"and the study stops: {_reason(first[0])}"
        )


def _reason(window: TrainedWindow) -> str:
    """Why a window failed, without the name of the error's class."""
    return re.sub(r"^\w+(Error|Exception): ", "", window.failure or "")


def _kind(window: TrainedWindow) -> str:
    """The error's class: its message names another asset or date in each window."""
    return (window.failure or "").partition(":")[0]


def failure_summary(windows: Sequence[TrainedWindow]) -> str:
    """How many windows failed, and why the first did; nothing where none did."""
    failed = [window for window in windows if window.failed]
    if not failed:
        return ""
    return f"{len(failed)} failed, the first on {failed[0].date.date()}: {_reason(failed[0])}"


def gradient_remarks(windows: pd.DataFrame) -> list[str]:
    """A sentence for each strategy with trainings of which most samples had no gradient, and what to do about it.

    Parameters
    ----------
    windows : DataFrame
        One row a retraining, as of :attr:`~portfolio_dfl.study.result.StudyResult.windows`.
    """
    from portfolio_dfl.training.starving import ADVICE, ZERO_GRADIENT_BOUND

    if "zero_gradient_share" not in windows:
        return []
    found = []
    for strategy, mine in windows.groupby("strategy", sort=False):
        shares = mine["zero_gradient_share"].dropna()
        starving = int((shares > ZERO_GRADIENT_BOUND).sum())
        if starving:
            found.append(
                f"{appearance(str(strategy)).label}: in {starving} of {counted(len(shares), 'training')} more than "
                f"{ZERO_GRADIENT_BOUND:.0%} of the samples had no gradient ({shares.mean():.0%} on average), so that "
                f"they taught the predictor nothing; {ADVICE}."
            )
    return found
