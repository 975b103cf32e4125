"""Studies that the evidence is made of: taken where they have been run, continued where they stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import TrackingError

if TYPE_CHECKING:
    from portfolio_dfl.study.result import StudyResult

__all__ = ["finished_study"]


def finished_study(config: StudyConfig, strategies: Mapping[str, Any] | None = None) -> StudyResult:
    """The result of a study, run at most once: its name in ``tracking.folder`` tells its configuration.

    Parameters
    ----------
    config : StudyConfig
    strategies : mapping of str to policy, optional
        As of :func:`~portfolio_dfl.study.run.run_study`; told apart by their names and ``repr``.
    """
    from portfolio_dfl.study.result import load_result
    from portfolio_dfl.study.run import resume_study, run_study

    plain = config.model_copy(update={"execution": StudyConfig().execution, "tracking": StudyConfig().tracking})
    own = sorted((name, repr(policy)) for name, policy in (strategies or {}).items())
    digest = hashlib.sha256(f"{plain.to_yaml()}{own}".encode()).hexdigest()[:8]
    named = config.override(f"name={config.name}-{digest}")
    root = Path(config.tracking.folder)
    for run in sorted(path for path in root.glob(f"{named.name}-*") if path.is_dir()):
        try:
            return load_result(run)
        except TrackingError:
            return resume_study(run)
    return run_study(named, strategies=strategies)
