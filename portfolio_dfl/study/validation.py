"""One configuration judged on the days before the test span: what a search maximises, and what it earned there."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.execution.parts import is_own
from portfolio_dfl.strategies.features import Tables, build_features
from portfolio_dfl.strategies.setting import StrategySetting, resolve_setting
from portfolio_dfl.strategies.table import lanes
from portfolio_dfl.strategies.walk import WalkTask, take_walk
from portfolio_dfl.study.plan import LedgerRule, periods_per_year
from portfolio_dfl.study.span import first_decision, load_spreads, rebalancing_of

if TYPE_CHECKING:
    from portfolio_dfl.backtest.own_metric import OwnMetric
    from portfolio_dfl.data.features import FeatureSet

__all__ = ["Validated", "judging_risk_aversion", "own_score", "trial_setting", "validate", "validation_score"]


@dataclass(frozen=True)
class Validated:
    """What a configuration came to.

    Attributes
    ----------
    score : float
        ``sweep.score``, the mean over its seeds; NaN if it cannot be judged.
    net_returns : Series or None
        Net returns by row of the books, the mean over its seeds; None if it cannot be judged.
    """

    score: float
    net_returns: pd.Series[float] | None


def judging_risk_aversion(config: StudyConfig) -> float:
    """λ of the utility that trials are judged by: one for all of them."""
    own = config.sweep.risk_aversion
    return config.allocation.risk_aversion if own is None else own


def trial_setting(config: StudyConfig, known: pd.DataFrame, features: FeatureSet | None) -> StrategySetting:
    """What the strategy of a trial is built from, of these returns."""
    tickers = list(known.columns)
    return resolve_setting(
        config,
        tickers,
        trained=True,
        spreads=load_spreads(config, tickers),
        features=features,
        periods_per_year=periods_per_year(config, known),
    )


def validate(
    config: StudyConfig, known: pd.DataFrame, start: pd.Timestamp, end: pd.Timestamp, tables: Tables | None = None
) -> Validated:
    """Judge one configuration on the validation days.

    A utility is taken at ``sweep.risk_aversion``, or at the configuration's own λ where that is not set.

    Parameters
    ----------
    config : StudyConfig
    known : DataFrame
        Returns up to the first test decision, and none after.
    start, end : Timestamp
        Span of the decision dates.
    tables : mapping, optional
        Tables of features in place of those that the configuration names.
    """
    from portfolio_dfl.backtest.evaluation import performance

    tickers = list(known.columns)
    features = build_features(config, tickers, tables)
    if int(known.index.searchsorted(start)) + 1 < first_decision(config, features):
        return Validated(float("nan"), None)
    tuned = lanes([config.sweep.strategy], config.training.seeds)
    setting = trial_setting(config, known, features)
    rule = LedgerRule.of(config, setting.costs)
    own = own_score(config)
    decisions = rebalancing_of(config).dates(pd.DatetimeIndex(known.index), start, end)
    scores, earned = [], []
    for lane in tuned:
        task = WalkTask(setting, lane, known, start, end, config.training.retrain_every, rule.lag, decisions=decisions)
        walked = take_walk(task)
        if len(walked.failures):
            first = walked.failures.iloc[0]
            logging.getLogger(__name__).warning(
                "of a trial's %s decisions and trainings %s failed and held what was held, the first on %s: %s",
                len(decisions) + len(range(0, len(decisions), config.training.retrain_every)),
                len(walked.failures),
                first["date"].date(),
                first["message"],
            )
        book = rule.keep(walked.targets, known, start=setting.start)
        measures = performance(
            book,
            periods_per_year=periods_per_year(config, known),
            risk_free=config.evaluation.risk_free_rate,
            risk_aversion=judging_risk_aversion(config),
            own=own,
        )
        scores.append(float(measures[config.sweep.score]))
        earned.append(book.net_returns)
    return Validated(float(np.mean(scores)), pd.concat(earned, axis=1).mean(axis=1))


def validation_score(
    config: StudyConfig, known: pd.DataFrame, start: pd.Timestamp, end: pd.Timestamp, tables: Tables | None = None
) -> float:
    """The score alone of :func:`validate`."""
    return validate(config, known, start, end, tables).score


def own_score(config: StudyConfig) -> dict[str, OwnMetric]:
    """The score by its name where it is a metric of the user's own, else nothing."""
    from portfolio_dfl.backtest.own_metric import OwnMetric

    return {config.sweep.score: OwnMetric(config.sweep.score)} if is_own(config.sweep.score) else {}
