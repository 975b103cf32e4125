"""A search over configurations that never looks at the test span.

Every trial is judged by its net result on the decision days just before ``backtest.start``; returns after that date
are cut off before the first trial. Trials are kept by Optuna in SQLite and recorded in MLflow as children of one run.
What a trial draws depends on the seed and the trials judged before it alone, so that an interrupted search goes on
to the trials it would have had undisturbed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.config.study import StudyConfig, StudyLike
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.execution.interruption import closed_on_signal
from portfolio_dfl.strategies.features import Features, Tables, build_features, split_features, with_tables
from portfolio_dfl.strategies.limits import build_limits
from portfolio_dfl.strategies.table import build_trained_policy, lanes
from portfolio_dfl.study.given import own_sources, with_given
from portfolio_dfl.study.places import located
from portfolio_dfl.study.plan import periods_per_year, try_own_losses
from portfolio_dfl.study.span import decision_span, first_decision, load_panel, load_spreads, rebalancing_of
from portfolio_dfl.study.stages import Progress
from portfolio_dfl.study.sweep_space import changed, corners, require_searchable, sampler, suggest
from portfolio_dfl.study.sweep_store import earned, held, judged, keep, open_study, quiet, record, search_digest
from portfolio_dfl.study.validation import judging_risk_aversion, own_score, trial_setting, validate, validation_score
from portfolio_dfl.tracking.mlflow_store import open_store, tracked_run
from portfolio_dfl.tracking.places import written

if TYPE_CHECKING:
    import optuna


__all__ = ["SweepResult", "run_sweep", "validation_score"]


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
    require_searchable(section.space)
    if config.data.members is not None:
        raise ConfigError("a search is over assets that are the same throughout: leave out data.members")
    variants = corners(config)
    known, start, end = _validation(config, variants, load_panel(config, prices).returns, tables)
    at_one_aversion = config.override(f"sweep.risk_aversion={judging_risk_aversion(config)!r}")
    folder = config.tracking.folder
    tickers = list(known.columns)
    tabled = build_features(config, tickers, tables)
    name = f"{config.name}-{search_digest(asked, known, load_spreads(config, tickers), tabled, sources)}"
    store = open_store(folder, experiment=config.tracking.experiment or config.name, uri=config.tracking.uri)
    tags = {"kind": "sweep", "sweep": name}
    with closed_on_signal(), held(folder, name), quiet:
        study = open_study(folder, name)
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
            while (done := len(judged(study))) < section.trials:
                if progress is not None:
                    progress("Trials", done, section.trials)
                seed = np.random.SeedSequence([config.training.seeds[0], done]).generate_state(1)[0]
                study.sampler = sampler(section, int(seed), done)
                trial = study.ask()
                values = {key: suggest(trial, key, choices) for key, choices in section.space.items()}
                found = validate(changed(at_one_aversion, values), known, start, end, tables)
                keep(study, trial, found)
            if progress is not None:
                progress("Trials", section.trials, section.trials)
            if not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
                raise ConfigError(
                    f"none of {section.trials} trials could be judged; look at sweep.space and sweep.days"
                )
            record(store, parent, study)
    place = folder / name if sources else folder
    with written(place):
        place.mkdir(exist_ok=True)
        if sources:
            sources.save(place)
    return _result(config, study, place / f"{name}.yaml", start, end)


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
    setting = trial_setting(config, known, features)
    if config.costs.spreads is not None:  # trials that learn from earlier ones say so themselves
        setting.costs.spreads_on(pd.DatetimeIndex(known.index[begin : last + 2]), tickers)
    policy = build_trained_policy(setting, tuned[0])  # or no trial could be judged
    try_own_losses({tuned[0]: policy}, known.iloc[: begin + 1])
    for variant in variants:
        build_limits(variant.allocation, tickers)
        build_loss(variant.training.loss, variant.training.loss_options)
    return known, known.index[begin], known.index[last]


def _result(
    config: StudyConfig, study: optuna.Study, path: Path, start: pd.Timestamp, end: pd.Timestamp
) -> SweepResult:
    trials = [
        {"trial": number, "score": np.nan if trial.value is None else trial.value, **trial.params}
        for number, trial in enumerate(judged(study))
    ]
    found = [f"{key}={json.dumps(value)}" for key, value in study.best_params.items()]
    judged_at = judging_risk_aversion(config)
    if "allocation.risk_aversion" in study.best_params:  # or the best would be judged at its own when tried again
        found.append(f"sweep.risk_aversion={judged_at!r}")
    best = config.override(found)
    returns = earned(study)
    with written(path):
        path.write_text(best.to_yaml(), encoding="utf-8")
        returns.to_csv(path.with_suffix(".csv"))
    return SweepResult(best, float(study.best_value), pd.DataFrame(trials), returns, path, judged_at, start, end)
