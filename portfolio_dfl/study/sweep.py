"""A search over configurations that never looks at the test span.

Every trial is judged by its net result on the decision days just before ``backtest.start``; returns after that date
are cut off before the first trial. Trials are kept by Optuna in SQLite and recorded in MLflow as children of one run.
What a trial draws depends on the seed and the trials judged before it alone, so that an interrupted search goes on
to the trials it would have had undisturbed.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.config.sections import SweepConfig
from portfolio_dfl.config.study import StudyConfig, StudyLike
from portfolio_dfl.errors import ConfigError, TrackingError
from portfolio_dfl.execution.interruption import closed_on_signal, uninterrupted
from portfolio_dfl.execution.process import SharedChange, log_level
from portfolio_dfl.strategies.features import Features, Tables, build_features, split_features, with_tables
from portfolio_dfl.strategies.limits import build_limits
from portfolio_dfl.strategies.setting import resolve_setting
from portfolio_dfl.strategies.table import build_trained_policy, lanes
from portfolio_dfl.study.given import own_sources, with_given
from portfolio_dfl.study.places import located
from portfolio_dfl.study.plan import periods_per_year, try_own_losses
from portfolio_dfl.study.span import decision_span, first_decision, load_panel, load_spreads, rebalancing_of
from portfolio_dfl.study.stages import Progress
from portfolio_dfl.study.validation import judging_risk_aversion, own_score, validate, validation_score
from portfolio_dfl.tracking.mlflow_store import StudyStore, TrackedRun, open_store, tracked_run
from portfolio_dfl.tracking.places import StoreError, refusal, restored, sqlite_uri, written

if TYPE_CHECKING:
    import optuna

    from portfolio_dfl.data.features import FeatureSet
    from portfolio_dfl.execution.own_sources import OwnSources

# Configurations that are looked at before the first trial; each takes a millisecond.
_MOST_CORNERS = 512

# What a search cannot change, and why.
_FIXED = {
    "name": "it changes no number",
    "data": "all trials are judged on the same prices",
    "backtest": "it says how trials are judged",
    "costs": "it says how trials are judged",
    "evaluation": "it says how trials are judged",
    "execution": "it changes no number",
    "tracking": "it changes no number",
    "sweep": "it is the search itself",
}

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

__all__ = ["SweepResult", "run_sweep", "validation_score"]


# Optuna has a line for every trial.
_quiet = SharedChange(lambda: log_level("optuna", logging.WARNING))


@dataclass(frozen=True)
class SweepResult:
    """Outcome of a search.

    Attributes
    ----------
    best : StudyConfig
        The original configuration with the best values.
    score : float
        Its score on the validation days.
    trials : DataFrame
        One row a trial: number, score, values; failed ones have no score.
    returns : DataFrame [rows, trials]
        Net returns of the trials on the validation days, the mean over their seeds, a column for each number; also
        written beside the best configuration. Trials of searches that began before these were kept are not in it.
    path : Path
        Where the best configuration was written.
    risk_aversion : float
        λ of the utility that every trial was judged by, whatever its own.
    start, end : Timestamp
        First and last date that trials could decide on, the validation span.
    """

    best: StudyConfig
    score: float
    trials: pd.DataFrame
    returns: pd.DataFrame
    path: Path
    risk_aversion: float
    start: pd.Timestamp
    end: pd.Timestamp

    @property
    def objective(self) -> str:
        """What was maximised, in words: the score, its λ where it has one, and the span."""
        of = f" at λ = {self.risk_aversion:g}" if self.best.sweep.score == "utility" else ""
        return f"{self.best.sweep.score}{of}, decisions from {self.start:%Y-%m-%d} to {self.end:%Y-%m-%d}"

    def __str__(self) -> str:
        return (
            f"{self.trials.to_string(index=False)}\n\nbest {self.objective}: {self.score:.4f}\n"
            f"its configuration: {self.path}"
        )

    def _repr_html_(self) -> str:
        return (
            f"<p>best {escape(self.objective)}: {self.score:.4f}, {escape(str(self.path))}</p>"
            f"{self.trials.to_html(index=False)}"
        )


def run_sweep(
    config: StudyLike | None = None,
    *,
    prices: pd.DataFrame | None = None,
    features: Features | None = None,
    progress: Progress | None = None,
    **sections: Any,
) -> SweepResult:
    """Try configurations until ``sweep.trials`` have been judged; those from before an interruption count.

    Parameters as of :func:`~portfolio_dfl.study.run.run_study`. Where parts are of the user's own, their sources are
    kept beside the best configuration; a search whose sources changed is another one.

    Raises
    ------
    ConfigError
        If the space is empty, names an unknown key or one that trials cannot differ in, or too few days lie before the
        test span.
    TrackingError
        If another process is working on the same search.
    """
    from optuna.trial import TrialState

    asked_for, tables = split_features(config, features, sections)
    given = with_given(asked_for, [], prices=prices is not None, spreads=False)
    asked = with_tables(given, tables)
    config = located(asked)
    sources = own_sources(config)
    section = config.sweep
    own_score(config)  # one that does not fit is heard of now
    if not section.space:
        raise ConfigError("sweep.space is empty; name at least one key, such as training.learning_rate: [1e-4, 1e-3]")
    _require_searchable(section.space)
    if config.data.members is not None:
        raise ConfigError("a search is over assets that are the same throughout: leave out data.members")
    variants = _variants(config)
    known, start, end = _validation(config, variants, load_panel(config, prices).returns, tables)
    judged = config.override(f"sweep.risk_aversion={judging_risk_aversion(config)!r}")
    folder = config.tracking.folder
    tickers = list(known.columns)
    tabled = build_features(config, tickers, tables)
    name = f"{config.name}-{_digest(asked, known, load_spreads(config, tickers), tabled, sources)}"
    store = open_store(folder, experiment=config.tracking.experiment or config.name, uri=config.tracking.uri)
    tags = {"kind": "sweep", "sweep": name}
    with closed_on_signal(), _held(folder, name), _quiet:
        study = _open_study(folder, name)
        resume = store.find_run(tags)
        with tracked_run(store, f"sweep {name}", resume=resume, tags=tags) as parent:
            parent.set_tags(
                {
                    "objective": section.score,
                    "risk_aversion": judging_risk_aversion(config),
                    "first_decision": start.date(),
                    "last_decision": end.date(),
                }
            )
            while (done := len(_judged(study))) < section.trials:
                if progress is not None:
                    progress("Trials", done, section.trials)
                seed = np.random.SeedSequence([config.training.seeds[0], done]).generate_state(1)[0]
                study.sampler = _sampler(section, int(seed), done)
                trial = study.ask()
                values = {key: _suggest(trial, key, choices) for key, choices in section.space.items()}
                found = validate(_changed(judged, values), known, start, end, tables)
                with uninterrupted():
                    if found.net_returns is not None:
                        trial.set_user_attr(_EARNED, found.net_returns.tolist())
                        study.set_user_attr(_EARNED, [str(day.date()) for day in found.net_returns.index])
                    if np.isfinite(found.score):
                        study.tell(trial, found.score)
                    else:
                        study.tell(trial, state=TrialState.PRUNED)
            if progress is not None:
                progress("Trials", section.trials, section.trials)
            if not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
                raise ConfigError(
                    f"none of {section.trials} trials could be judged; look at sweep.space and sweep.days"
                )
            _record(store, parent, study)
    place = folder / name if sources else folder
    with written(place):
        place.mkdir(exist_ok=True)
        if sources:
            sources.save(place)
    return _result(config, study, place / f"{name}.yaml", start, end)


def _require_searchable(space: Iterable[str]) -> None:
    """Refuse keys whose values make no difference between trials, or another measure for each."""
    for key in space:
        reason = _FIXED.get(key.partition(".")[0])
        if reason is not None:
            searched = [name for name in StudyConfig.model_fields if name not in _FIXED]
            raise ConfigError(
                f"sweep.space: {key} cannot be searched, {reason}; what can are keys of {', '.join(searched)}"
            )


def _variants(config: StudyConfig) -> list[StudyConfig]:
    """The configurations at the corners of the space: choices of lists and ends of ranges, together with each other.

    Where there are too many, with one value changed at a time.

    Raises
    ------
    ConfigError
        If values of the space do not fit each other, or are none of their keys'.
    """
    ends = {
        key: choices if isinstance(choices, list) else [choices["low"], choices["high"]]
        for key, choices in config.sweep.space.items()
    }
    singles = [{key: value} for key, values in ends.items() for value in values]
    together = [dict(zip(ends, values, strict=True)) for values in _few(list(ends.values()))]
    return [_changed(config, values) for values in (together or singles)]


def _few(choices: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """All combinations; none where they are more than one would wait for."""
    return list(product(*choices)) if prod(map(len, choices)) <= _MOST_CORNERS else []


def _validation(
    config: StudyConfig, variants: Sequence[StudyConfig], returns: pd.DataFrame, tables: Tables | None
) -> tuple[pd.DataFrame, pd.Timestamp, pd.Timestamp]:
    """Returns known at the first test decision, and the first and last validation date."""
    from portfolio_dfl.training.losses import build_loss

    features = build_features(config, list(returns.columns), tables)
    first = decision_span(config, returns, features).dates[0]
    known = returns.loc[:first]
    periods_per_year(config, known)  # dates of no known rhythm are heard of before the first trial
    last = len(known) - 2 - config.backtest.lag
    begin = last - config.sweep.days + 1
    needed = first_decision(config, features)
    if begin + 1 < needed:
        raise ConfigError(
            f"sweep.days {config.sweep.days} before {first.date()} leave {max(begin + 1, 0)} returns where the first "
            f"decision needs {needed}; use fewer days or a later backtest.start"
        )
    rebalancing = rebalancing_of(config)
    if len(rebalancing.dates(pd.DatetimeIndex(known.index), known.index[begin], known.index[last])) == 0:
        raise ConfigError(
            f"sweep.days {config.sweep.days} before {first.date()} hold no decision date {rebalancing}; use more days"
        )
    tuned = lanes([config.sweep.strategy], config.training.seeds)
    tickers = list(returns.columns)
    spreads = load_spreads(config, tickers)
    setting = resolve_setting(
        config,
        tickers,
        trained=True,
        spreads=spreads,
        features=features,
        periods_per_year=periods_per_year(config, known),
    )
    if spreads is not None:  # trials that learn from earlier ones say so themselves
        setting.costs.spreads_on(pd.DatetimeIndex(known.index[begin : last + 2]), tickers)
    policy = build_trained_policy(setting, tuned[0])  # or no trial could be judged
    try_own_losses({tuned[0]: policy}, known.iloc[: begin + 1])
    for variant in variants:
        build_limits(variant.allocation, tickers)
        build_loss(variant.training.loss, variant.training.loss_options)
    return known, known.index[begin], known.index[last]


def _changed(config: StudyConfig, values: dict[str, Any]) -> StudyConfig:
    strategy = f"backtest.strategies=[{config.sweep.strategy}]"
    return config.override([strategy, *(f"{key}={json.dumps(value)}" for key, value in values.items())])


def _suggest(trial: optuna.Trial, key: str, choices: Any) -> Any:
    if isinstance(choices, list):
        return trial.suggest_categorical(key, choices)
    low, high, log = choices["low"], choices["high"], bool(choices.get("log", False))
    if float(low).is_integer() and float(high).is_integer():
        return trial.suggest_int(key, int(low), int(high), log=log)
    return trial.suggest_float(key, float(low), float(high), log=log)


def _sampler(section: SweepConfig, seed: int, done: int) -> optuna.samplers.BaseSampler:
    """What draws the next trial: for a grid the combination whose turn it is, the last key changing fastest."""
    import warnings

    import optuna

    drawing = optuna.samplers.TPESampler(seed=seed)
    if section.sampler == "tpe":
        return drawing
    listed = [choices for choices in section.space.values() if isinstance(choices, list)]
    values = dict(zip(section.space, list(product(*listed))[done], strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.PartialFixedSampler(values, drawing)


def _judged(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


@contextmanager
def _held(folder: Path, name: str) -> Iterator[None]:
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


def _open_study(folder: Path, name: str) -> optuna.Study:
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


def _record(store: StudyStore, parent: TrackedRun, study: optuna.Study) -> None:
    """A child run for every judged trial."""
    for number, trial in enumerate(_judged(study)):
        resume = store.find_run({"trial": str(number)}, parent=parent)
        tags = {"trial": number}
        with tracked_run(store, f"trial {number}", parent=parent, resume=resume, tags=tags) as run:
            run.log_params(trial.params)
            run.log_metrics({} if trial.value is None else {"score": trial.value})
    parent.log_metrics({"best_score": study.best_value}, step=len(_judged(study)))


def _result(
    config: StudyConfig, study: optuna.Study, path: Path, start: pd.Timestamp, end: pd.Timestamp
) -> SweepResult:
    trials = [
        {"trial": number, "score": np.nan if trial.value is None else trial.value, **trial.params}
        for number, trial in enumerate(_judged(study))
    ]
    found = [f"{key}={json.dumps(value)}" for key, value in study.best_params.items()]
    judged_at = judging_risk_aversion(config)
    if "allocation.risk_aversion" in study.best_params:  # or the best would be judged at its own when tried again
        found.append(f"sweep.risk_aversion={judged_at!r}")
    best = config.override(found)
    returns = _earned(study)
    with written(path):
        path.write_text(best.to_yaml(), encoding="utf-8")
        returns.to_csv(path.with_suffix(".csv"))
    return SweepResult(best, float(study.best_value), pd.DataFrame(trials), returns, path, judged_at, start, end)


def _earned(study: optuna.Study) -> pd.DataFrame:
    """Net returns of the trials that kept theirs [rows, trials]."""
    kept = {number: trial.user_attrs.get(_EARNED) for number, trial in enumerate(_judged(study))}
    days = pd.DatetimeIndex(study.user_attrs.get(_EARNED, []), name="date")
    earned = {number: values for number, values in kept.items() if values is not None}
    return pd.DataFrame(earned, index=days, dtype=float).rename_axis(columns="trial")


def _digest(
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
