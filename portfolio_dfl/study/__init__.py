"""Studies from configuration to report: composition only, everything that computes lies below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portfolio_dfl.study.run import Progress, TrainedStudy, compare_study, resume_study, run_study, train_study

__all__ = ["Progress", "TrainedStudy", "compare_study", "resume_study", "run_study", "train_study"]


def __getattr__(name: str) -> Any:
    """What is exported is imported when it is asked for: ``portfolio_dfl.study.span`` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from portfolio_dfl.study import run

    return getattr(run, name)
