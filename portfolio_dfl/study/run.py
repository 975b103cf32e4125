"""A study from configuration to report, as one function; and the same function after an interruption."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from portfolio_dfl.config.study import StudyConfig, StudyLike
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.execution.fan_out import connected
from portfolio_dfl.execution.interruption import closed_on_signal
from portfolio_dfl.execution.provenance import git_commit, versions
from portfolio_dfl.notebook import PrintedResult
from portfolio_dfl.strategies.features import Features, Tables, split_features
from portfolio_dfl.strategies.own import freeze_policies, modules_of
from portfolio_dfl.strategies.table import TABLE, Lane
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.given import own_sources, with_given
from portfolio_dfl.study.health import failure_summary
from portfolio_dfl.study.places import located
from portfolio_dfl.study.plan import StudyPlan, resolve_plan
from portfolio_dfl.study.result import StudyResult
from portfolio_dfl.study.span import load_panel, load_spreads
from portfolio_dfl.study.stages import Progress, evaluate, record, train, walk
from portfolio_dfl.tracking.mlflow_store import StudyStore, TrackedRun, open_store, tracked_run
from portfolio_dfl.tracking.places import StoreError, written
from portfolio_dfl.wording import counted

if TYPE_CHECKING:
    from portfolio_dfl.training.window import TrainedWindow

__all__ = [
    "Progress",
    "TrainedStudy",
    "compare_study",
    "resume_study",
    "run_study",
    "train_study",
]


@dataclass(frozen=True)
class TrainedStudy(PrintedResult):
    """A study whose windows are trained and not yet backtested.

    Attributes
    ----------
    folder : Path
        The run's folder.
    windows : mapping of label to TrainedWindow
        Outcome of every retraining of each trained strategy.
    """

    folder: Path
    windows: dict[str, tuple[TrainedWindow, ...]]

    def __str__(self) -> str:
        lines = []
        for label, windows in self.windows.items():
            trained = f"{label}: {counted(len(windows), 'window')} trained"
            lines.append(f"{trained}, {failure_summary(windows) or '0 failed'}")
        reference = RunFolder(self.folder).reference
        return "\n".join([*lines, f"run  {self.folder}", f"next: portfolio-dfl backtest {reference}"])


def run_study(
    config: StudyLike | None = None,
    *,
    prices: pd.DataFrame | None = None,
    features: Features | None = None,
    spreads: pd.DataFrame | None = None,
    members: pd.DataFrame | None = None,
    strategies: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **sections: Any,
) -> StudyResult:
    """Run a whole study and record it.

    Parameters
    ----------
    config : StudyConfig, path or mapping, optional
        A path is that of a YAML file; the defaults if left out.
    prices : DataFrame, optional
        Adjusted closes, in place of ``data.source``: a row a date, a column a ticker. They are checked and cleaned as
        those of a file, and kept with the run.
    features : mapping, optional
        Tables of features by name, as frames or as what
        :func:`~portfolio_dfl.data.features.reading.feature_table` gives; they take the place of files, and the
        configuration says the rest of them. What is a mapping is such a part of the configuration:
        ``{"momentum": {"builtin": "momentum"}}``.
    spreads : DataFrame, optional
        Bid–ask spreads by date, a column a ticker, in place of ``costs.spreads``; kept with the run.
    members : DataFrame, optional
        Who is a member when, in place of ``data.members``: a row a time of membership, with the columns ``ticker``,
        ``from``, ``to`` and as far as wanted ``delisting_return`` and ``column``; kept with the run.
    strategies : mapping of str to policy, optional
        Policies of your own beside the strategies of the configuration, each under the name that it has in tables: an
        object with ``decide(history, held)`` and optionally ``fit(history)``, see :class:`~portfolio_dfl.Policy`, or
        a function of (history, held). They are pickled with the run as they are now.
    progress : callable, optional
        Told of finished windows and walks: (stage, done, total).
    **sections
        Values that replace those of the configuration, such as ``backtest={"start": "2018-01-02"}``.

    Raises
    ------
    PortfolioError
        If the prices, the span or a setting cannot be used; nothing is trained or written then.
    """
    study, tables = split_features(config, features, sections)
    plan = _prepared(study, prices, strategies, tables, spreads, members)
    return _complete(plan, _begin(plan), progress)


def train_study(
    config: StudyLike | None = None,
    *,
    prices: pd.DataFrame | None = None,
    features: Features | None = None,
    spreads: pd.DataFrame | None = None,
    members: pd.DataFrame | None = None,
    strategies: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **sections: Any,
) -> TrainedStudy:
    """Train all windows of a study and stop there; :func:`resume_study` backtests it later.

    Parameters and errors as :func:`run_study`.
    """
    study, tables = split_features(config, features, sections)
    plan = _prepared(study, prices, strategies, tables, spreads, members)
    folder, execution = _begin(plan), plan.execution
    with _tracked(plan, folder) as (_, _, children), connected(execution.backend, execution.address):
        windows = train(plan, folder, children, progress or _silent)
    return TrainedStudy(folder.path, {lane.label: tuple(mine) for lane, mine in windows.items()})


def compare_study(
    config: StudyLike | None = None,
    *,
    prices: pd.DataFrame | None = None,
    features: Features | None = None,
    spreads: pd.DataFrame | None = None,
    members: pd.DataFrame | None = None,
    strategies: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **sections: Any,
) -> StudyResult:
    """Run a study with every strategy that the table compares, and those that the configuration names beside them.

    Parameters and errors as :func:`run_study`.
    """
    study, tables = split_features(config, features, sections)
    named = study.backtest.strategies
    compared = [name for name, entry in TABLE.items() if entry.compared or name in named]
    every = [*compared, *(name for name in named if name not in TABLE)]
    changed = study.override([f"backtest.strategies={json.dumps(every)}"])
    return run_study(
        changed,
        prices=prices,
        features=tables,
        spreads=spreads,
        members=members,
        strategies=strategies,
        progress=progress,
    )


def resume_study(
    run: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] = "runs",
    overrides: Sequence[str] = (),
    progress: Progress | None = None,
) -> StudyResult:
    """Continue an interrupted study at the window where it stopped, to the same numbers.

    A study that had finished is evaluated and reported again.

    Parameters
    ----------
    run : path or str
        The run's folder, or its name under ``root``.
    root : path
        Folder of runs.
    overrides : sequence of str
        Other values of ``execution``, such as ``execution.workers=1``: where the rest runs changes no number.
    progress : callable, optional
        Told of finished windows and walks, those from before included.

    Raises
    ------
    ConfigError
        If an override changes anything but ``execution``.
    TrackingError
        If there is no such run, another process works on it, or what it was started with is damaged.
    """
    folder = RunFolder.open(run, root)
    recorded = folder.config()
    config = recorded.override(list(overrides))
    if config.model_copy(update={"execution": recorded.execution}) != recorded:
        raise ConfigError("a study that goes on may change where it runs, execution.*, and nothing else")
    sources = folder.sources()
    sources.restore(folder.parts)
    with folder.importing():
        plan = resolve_plan(
            recorded,
            folder.panel(),
            spreads=folder.spreads(),
            tables=folder.tables(),
            execution=config.execution,
            sources=sources,
            given=folder.policies(),
        )
    return _complete(plan, folder, progress)


def _prepared(
    config: StudyConfig,
    prices: pd.DataFrame | None,
    strategies: Mapping[str, Any] | None,
    features: Tables | None,
    spreads: pd.DataFrame | None,
    members: pd.DataFrame | None,
) -> StudyPlan:
    """The plan of a study that begins here, with what it is given in Python beside its configuration."""
    given = freeze_policies(strategies or {})
    in_memory = {"prices": prices is not None, "spreads": spreads is not None, "members": members is not None}
    config = located(with_given(config, list(given), **in_memory))
    sources = own_sources(config, modules_of(strategies or {}))
    panel = load_panel(config, prices, members)
    table = None if spreads is None else load_spreads(config, panel.tickers, spreads)
    return resolve_plan(config, panel, spreads=table, tables=features, sources=sources, given=given)


def _begin(plan: StudyPlan) -> RunFolder:
    """A folder for a study that begins; nothing is written while no store answers."""
    from portfolio_dfl.forecasting.build import import_folder

    _open_store(plan.config)
    predictor = import_folder(plan.config.forecasting.predictor) if plan.policies else None
    return RunFolder.create(
        plan.config,
        plan.panel,
        predictor=predictor,
        spreads=plan.setting.costs.spreads,
        features=plan.features,
        sources=plan.sources,
        policies=plan.setting.given_policies,
    )


def _complete(plan: StudyPlan, folder: RunFolder, progress: Progress | None) -> StudyResult:
    """Do what is not done yet, in a run folder that exists."""
    begin, show = time.perf_counter(), progress or _silent
    with _tracked(plan, folder) as (parent, facts, children):
        with connected(plan.execution.backend, plan.execution.address):
            windows = train(plan, folder, children, show)
            walks = walk(plan, windows, show)
        result = evaluate(plan, folder, windows, walks, facts, parent)
        record(result, folder, windows, children, parent, time.perf_counter() - begin, plan.features, plan.changing)
    return result


@contextmanager
def _tracked(plan: StudyPlan, folder: RunFolder) -> Iterator[tuple[TrackedRun, dict[str, str], dict[Lane, TrackedRun]]]:
    """The study's MLflow runs, opened again where they exist: the parent, its facts, a child a strategy."""
    config = plan.config
    store = _open_store(config)
    facts = {
        "run": folder.recorded_name,
        "data": config.data.source,
        "data_sha256": plan.panel.sha256,
        **({} if plan.features is None else {"features_sha256": plan.features.sha256}),
        "periods_per_year": f"{plan.periods_per_year:.12g}",
        "git_commit": git_commit(),
        "solver": config.allocation.solver,
        **versions(),
    }
    tags = {"kind": "study", "run_folder": folder.recorded_name, **facts}
    with closed_on_signal(), folder.held(), _continued_by(folder), ExitStack() as stack:
        earlier = store.find_run({"run_folder": folder.recorded_name})
        parent = stack.enter_context(
            tracked_run(store, folder.recorded_name, resume=earlier, tags=tags, source="portfolio-dfl")
        )
        parent.log_params(folder.recorded_config().flat())
        parent.log_file(folder.path / "config.yaml")
        children = {
            lane: stack.enter_context(_child(store, parent, lane, resumed=earlier is not None)) for lane in plan.lanes
        }
        yield parent, facts, children


@contextmanager
def _continued_by(folder: RunFolder) -> Iterator[None]:
    """Tell how a study goes on that its store, its folder or a signal broke off."""
    try:
        with written(folder.path.parent):
            yield
    except (KeyboardInterrupt, SystemExit) as stopped:
        stopped.add_note(f"run {folder.name} was broken off; `portfolio-dfl resume {folder.reference}` continues it")
        raise
    except StoreError as error:
        advice = f"once that is mended, `portfolio-dfl resume {folder.reference}` continues the study"
        raise StoreError(f"{error}; {advice}") from error


def _open_store(config: StudyConfig) -> StudyStore:
    tracking = config.tracking
    return open_store(tracking.folder, experiment=tracking.experiment or config.name, uri=tracking.uri)


@contextmanager
def _child(store: StudyStore, parent: TrackedRun, lane: Lane, *, resumed: bool) -> Iterator[TrackedRun]:
    tags: dict[str, object] = {"kind": "strategy", "strategy": lane.strategy, "lane": lane.slug}
    if lane.seed is not None:
        tags["seed"] = lane.seed
    earlier = store.find_run({"lane": lane.slug}, parent=parent) if resumed else None
    with tracked_run(store, lane.slug, parent=parent, resume=earlier, tags=tags) as run:
        yield run


def _silent(stage: str, done: int, total: int) -> None:
    """Show nothing."""
