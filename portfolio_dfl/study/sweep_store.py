"""Where a search is kept: its name, its trials in Optuna's database, and their records in MLflow."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import TrackingError
from portfolio_dfl.execution.interruption import uninterrupted
from portfolio_dfl.execution.process import SharedChange, log_level
from portfolio_dfl.study.validation import Validated
from portfolio_dfl.tracking.mlflow_store import StudyStore, TrackedRun, tracked_run
from portfolio_dfl.tracking.places import StoreError, refusal, restored, sqlite_uri, written

if TYPE_CHECKING:
    import optuna

    from portfolio_dfl.data.features import FeatureSet
    from portfolio_dfl.execution.own_sources import OwnSources

__all__ = ["earned", "held", "judged", "keep", "open_study", "quiet", "record", "search_digest"]

# Keys that did not exist when earlier searches began: they are left out of a search's name where they say nothing.
_NEWER = (
    "data.members",
    "evaluation.periods_per_year",
    "evaluation.metrics",
    "allocation.limits",
    "allocation.repair",
    "allocation.stage",
    "backtest.rebalance",
    "backtest.rebalance_on",
    "covariance.options",
    "forecasting.prior",
    "forecasting.prior_options",
    "forecasting.ensemble",
    "backtest.strategy_options",
    "sweep.risk_aversion",
    "sweep.sampler",
    "training.learned",
    "training.schedule",
    "training.sample_halflife",
)

# Under which a trial keeps what it earned, and the search the days of it.
_EARNED = "net_returns"

# Optuna has a line for every trial.
quiet = SharedChange(lambda: log_level("optuna", logging.WARNING))


def judged(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """The trials that count, in their order: those that could not be judged too."""
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


def keep(study: optuna.Study, trial: optuna.Trial, found: Validated) -> None:
    """Keep a trial's score and what it earned; one that could not be judged has none."""
    from optuna.trial import TrialState

    with uninterrupted():
        if found.net_returns is not None:
            trial.set_user_attr(_EARNED, found.net_returns.tolist())
            study.set_user_attr(_EARNED, [str(day.date()) for day in found.net_returns.index])
        if np.isfinite(found.score):
            study.tell(trial, found.score)
        else:
            study.tell(trial, state=TrialState.PRUNED)


@contextmanager
def held(folder: Path, name: str) -> Iterator[None]:
    """Keep other processes from the same search, and tell how it goes on if its store breaks it off."""
    from filelock import FileLock, Timeout
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    file = folder / "sweeps.db"
    try:
        lock = FileLock(folder / f".{name}.lock", timeout=0).acquire()
    except Timeout as error:
        raise TrackingError(f"another process is working on sweep {name}; wait for it or stop it") from error
    with lock:
        advice = "once that is mended, the same sweep goes on where it stopped"
        try:
            with written(folder):
                yield
        except (KeyboardInterrupt, SystemExit) as stopped:
            stopped.add_note(f"sweep {name} was broken off; the same command continues it")
            raise
        except StoreError as error:
            raise StoreError(f"{error}; {advice}") from error
        except (SQLAlchemyError, StorageInternalError) as error:  # Optuna's own
            raise StoreError(f"Optuna did not take a trial: {refusal(error) or error} ({file}); {advice}") from error


def open_study(folder: Path, name: str) -> optuna.Study:
    """The search, new or from before; trials that were running when its process died are given up."""
    import optuna
    from filelock import FileLock
    from sqlalchemy.exc import SQLAlchemyError

    file = (folder / "sweeps.db").resolve()
    try:
        with FileLock(folder / ".sweeps.lock", timeout=300):  # several first users would each create the tables
            study = optuna.create_study(
                storage=sqlite_uri(file), study_name=name, direction="maximize", load_if_exists=True
            )
    except (SQLAlchemyError, RuntimeError) as error:  # the latter for tables of another version of Optuna
        reason = refusal(error) or str(error).strip().partition("\n")[0]
        raise TrackingError(f"Optuna cannot open {file}: {reason}; {restored(reason)}") from error
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def record(store: StudyStore, parent: TrackedRun, study: optuna.Study) -> None:
    """A child run for every judged trial."""
    for number, trial in enumerate(judged(study)):
        resume = store.find_run({"trial": str(number)}, parent=parent)
        tags = {"trial": number}
        with tracked_run(store, f"trial {number}", parent=parent, resume=resume, tags=tags) as run:
            run.log_params(trial.params)
            run.log_metrics({} if trial.value is None else {"score": trial.value})
    parent.log_metrics({"best_score": study.best_value}, step=len(judged(study)))


def earned(study: optuna.Study) -> pd.DataFrame:
    """Net returns of the trials that kept theirs [rows, trials]."""
    kept = {number: trial.user_attrs.get(_EARNED) for number, trial in enumerate(judged(study))}
    days = pd.DatetimeIndex(study.user_attrs.get(_EARNED, []), name="date")
    those = {number: values for number, values in kept.items() if values is not None}
    return pd.DataFrame(those, index=days, dtype=float).rename_axis(columns="trial")


def search_digest(
    config: StudyConfig,
    known: pd.DataFrame,
    spreads: pd.DataFrame | None,
    features: FeatureSet | None,
    sources: OwnSources,
) -> str:
    """What identifies a search: its returns, tables and own parts, and all but how many trials it has and where."""
    decisive = config.override(["sweep.trials=1"])
    usual = StudyConfig()
    unset: dict[str, Any] = {key: True for key in ("costs", "features") if getattr(config, key) == getattr(usual, key)}
    for key in _NEWER:
        section, _, name = key.partition(".")
        if getattr(getattr(config, section), name) == getattr(getattr(usual, section), name):
            unset.setdefault(section, set()).add(name)
    text = decisive.model_dump_json(exclude={"execution": True, "tracking": True, **unset})
    if config.sweep.score == "utility" and "allocation.risk_aversion" in config.sweep.space:
        text += "judged at one risk aversion"  # earlier searches judged each trial at its own
    tables = [known] if spreads is None else [known, spreads.loc[: known.index[-1]]]
    numbers = b"".join(pd.util.hash_pandas_object(table).to_numpy().tobytes() for table in tables)
    tabled = b"" if features is None else features.sha256.encode()
    own = b"".join(path.encode() + content for path, content in sorted(sources.files.items()))
    return hashlib.sha256(text.encode() + numbers + tabled + own).hexdigest()[:8]
