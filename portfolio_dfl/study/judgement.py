"""The judgement of a study: the books of all strategies over the same days, and what can be said about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.errors import AllocationError
from portfolio_dfl.strategies.table import Lane, by_strategy
from portfolio_dfl.strategies.walk import Walk, window_frame
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.metrics import TakenDown
from portfolio_dfl.study.plan import StudyPlan
from portfolio_dfl.study.replicates import trials_that_differ
from portfolio_dfl.study.result import StudyResult

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Ledger
    from portfolio_dfl.strategies.setting import StrategySetting
    from portfolio_dfl.training.window import TrainedWindow

__all__ = ["judge"]

# Below this a comparison has no interval.
_FEWEST_DAYS = 10
# Weights that a message lists.
_MOST_SHOWN = 12


def judge(
    plan: StudyPlan,
    windows: Mapping[Lane, Sequence[TrainedWindow]],
    walks: Sequence[Walk],
    *,
    folder: RunFolder,
    facts: Mapping[str, str],
) -> StudyResult:
    """Keep the books of every walk, at the same costs, and compare them.

    Parameters
    ----------
    plan : StudyPlan
    windows : mapping of Lane to sequence of TrainedWindow
    walks : sequence of Walk
    folder : RunFolder
        Where the study is kept.
    facts : mapping
        Where the result comes from.
    """
    from portfolio_dfl.backtest.costs import cost_levels
    from portfolio_dfl.backtest.evaluation import performance_table
    from portfolio_dfl.backtest.universes import universe_rows

    rate, aversion = plan.evaluation.risk_free_rate, plan.setting.risk_aversion
    own = {column: TakenDown(metric) for column, metric in plan.metrics.items()}
    yearly: dict[str, Any] = {
        "periods_per_year": plan.periods_per_year,
        "risk_free": rate,
        "risk_aversion": aversion,
        "own": own,
    }
    earned = plan.returns.loc[: plan.span.last_return]
    start = plan.start
    books = {walked.lane: plan.ledger.keep(walked.targets, earned, walked.lane.label, start=start) for walked in walks}
    regrets, lost = _regrets(plan, books)
    covariances = _covariances(plan)
    metrics = performance_table(books.values(), **yearly)
    costs = cost_levels(list(books.values()), plan.evaluation.cost_levels, **yearly)
    frames = [
        _with_held(window_frame(walked, windows[walked.lane], regrets[walked.lane], covariances), books[walked.lane])
        for walked in walks
        if walked.lane in windows
    ]
    return StudyResult(
        config=plan.config,
        lanes=tuple(walked.lane for walked in walks),
        ledgers={lane.label: book for lane, book in books.items()},
        metrics=metrics,
        costs=costs,
        scores=_scores(plan, walks, books, regrets, metrics),
        comparison=_comparison(plan, books, regrets),
        regrets={lane.label: regret for lane, regret in regrets.items()},
        covariances=covariances,
        windows=pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(),
        failures=pd.concat(
            [_with_held(walked.failures, books[walked.lane]).assign(strategy=walked.lane.label) for walked in walks]
            + lost
            + [metric.rows() for metric in own.values() if metric.failures],
            ignore_index=True,
        ),
        flags=folder.flags(),
        facts=facts,
        folder=folder.path,
        report=folder.path / "report.html",
        universes=None if plan.changing is None else universe_rows(plan.changing.universes),
    )


def _regrets(plan: StudyPlan, books: Mapping[Lane, Ledger]) -> tuple[dict[Lane, pd.Series[float]], list[pd.DataFrame]]:
    """Regret by day of every strategy; where hindsight has no answer, none, and why."""
    returns = plan.returns
    traded = None
    if not plan.every_row:  # days that open with the trade of a decision
        opened = returns.index.get_indexer(plan.span.dates) + 1 + plan.ledger.lag
        traded = pd.DatetimeIndex(returns.index[opened[opened < len(returns)]])
    none: pd.Series[float] = pd.Series(index=pd.DatetimeIndex([]), dtype=np.float64)
    found: dict[Lane, pd.Series[float]] = {}
    lost = []
    for lane, book in books.items():
        parts = []
        for setting, part, earned in _by_universe(plan, book):
            days = part.daily.index if traded is None else part.daily.index.intersection(traded)
            needed = max(setting.realised_window, setting.stage)
            if len(days) == 0 or returns.index.searchsorted(days[0]) + needed > len(returns):
                continue  # too short to know any realised covariance
            try:
                parts.append(_regret(setting, part, earned, traded))
            except AllocationError as error:  # takes nothing from the strategy
                row = {
                    "date": [pd.NaT],
                    "what": ["regret"],
                    "message": [str(error)],
                    "strategy": [lane.label],
                    "held": [""],
                }
                lost.append(pd.DataFrame(row))
        found[lane] = pd.concat(parts) if parts else none
    return found, lost


def _regret(
    setting: StrategySetting, book: Ledger, returns: pd.DataFrame, traded: pd.DatetimeIndex | None
) -> pd.Series[float]:
    from portfolio_dfl.backtest.regret import decision_regret

    return decision_regret(
        book,
        returns,
        risk_aversion=setting.risk_aversion,
        turnover_limit=setting.first_turnover_limit,
        limits=setting.limits,
        realised=setting.realised(),
        solver=setting.solver,
        stage=setting.stage,
        decisions=traded,
    )["regret"]


def _by_universe(plan: StudyPlan, book: Ledger) -> Iterator[tuple[StrategySetting, Ledger, pd.DataFrame]]:
    """The books as long as a universe lasts, of its assets alone, with its setting and the returns that judge them."""
    from portfolio_dfl.backtest.universes import books_of

    if plan.changing is None:
        yield plan.setting, book, plan.returns
        return
    earned = plan.panel.earned
    for universe, part in books_of(book, plan.changing.universes, plan.changing.members):
        setting, days = plan.changing.settings[universe.assets], earned.index.get_indexer(part.daily.index)
        if len(days):
            ahead = max(setting.realised_window, setting.stage)
            yield setting, part, earned[list(universe.assets)].iloc[days[0] : days[-1] + ahead]


def _covariances(plan: StudyPlan) -> pd.DataFrame:
    """Shrinkage and ridge that the covariance of every decision date really received."""
    if plan.changing is None:
        return _received(plan.setting, plan.returns, plan.span.dates)
    found = []
    for universe, until in plan.changing.spans():
        dates = plan.span.dates[(plan.span.dates >= universe.since) & (plan.span.dates < until)]
        returns = universe.history(plan.returns.loc[: dates[-1]])
        found.append(_received(plan.changing.settings[universe.assets], returns, dates))
    return pd.concat(found)


def _received(setting: StrategySetting, returns: pd.DataFrame, dates: pd.DatetimeIndex) -> pd.DataFrame:
    from portfolio_dfl.risk import covariance_pieces
    from portfolio_dfl.risk.factor_path import in_parts

    estimator = setting.covariance
    if in_parts(estimator, returns.shape[1]):  # what is drawn together there is no covariance
        return pd.DataFrame({"shrinkage": 0.0, "ridge": 0.0}, index=dates)
    used = pd.concat(
        [
            pd.DataFrame({"shrinkage": piece.shrinkage, "ridge": piece.ridge}, index=piece.dates)
            for piece in covariance_pieces(returns, estimator, dates)
        ]
    )
    return used.loc[used.index.intersection(dates)]


def _scores(
    plan: StudyPlan,
    walks: Sequence[Walk],
    books: Mapping[Lane, Ledger],
    regrets: Mapping[Lane, pd.Series[float]],
    metrics: pd.DataFrame,
) -> pd.DataFrame:
    """Squared error beside regret, and what is left of an advantage after costs and trials; a row a strategy.

    Every strategy of the study but perfect foresight is a trial: one could have picked any of them. Those with the
    very same returns, such as seeds that change nothing, are one.
    """
    from portfolio_dfl.backtest.costs import break_even_cost
    from portfolio_dfl.backtest.deflation import deflated_sharpe

    section = plan.evaluation
    tried = [lane for lane in books if not lane.foresight]
    differing = trials_that_differ(tried, {lane.label: book for lane, book in books.items()})
    known = metrics.loc[[lane.label for lane in differing], "sharpe"]
    sharpes = [float(value) for value in known if np.isfinite(value)]
    rows = {}
    for walked in walks:
        lane, book = walked.lane, books[walked.lane]
        others = {
            "cost": _counterpart(lane, [other for other in books if other.strategy == section.reference]),
            "holding": _counterpart(lane, [other for other in books if other.never_trades]),
        }
        deflated = np.nan
        if lane in tried and sharpes:
            deflated = deflated_sharpe(
                book.net_returns,
                sharpes,
                earlier_trials=section.earlier_trials,
                risk_free=section.risk_free_rate,
                periods_per_year=plan.periods_per_year,
            )
        rows[lane.label] = {
            "mse": _mean(walked.squared_errors),
            "regret": _mean(regrets[lane]),
            **{
                f"break_even_{name}": np.nan if other is None else break_even_cost(book, books[other])
                for name, other in others.items()
            },
            "deflated_sharpe": deflated,
            "trials": len(differing) + section.earlier_trials,
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "strategy"
    return table


def _counterpart(lane: Lane, candidates: Sequence[Lane]) -> Lane | None:
    """The reference's lane of the same seed, or its first; None for the reference itself and for the ceiling."""
    if lane.foresight or any(lane.strategy == other.strategy for other in candidates):
        return None
    same = [other for other in candidates if other.seed == lane.seed]
    return next(iter([*same, *candidates]), None)


def _comparison(
    plan: StudyPlan, books: Mapping[Lane, Ledger], regrets: Mapping[Lane, pd.Series[float]]
) -> pd.DataFrame | None:
    """Every strategy against the reference, each averaged over its seeds."""
    from portfolio_dfl.backtest.inference import Bootstrap, comparison_table

    section = plan.evaluation
    groups = by_strategy(list(books))
    reference = next((label for label, mine in groups.items() if mine[0].strategy == section.reference), None)
    days = next(iter(books.values())).daily
    if reference is None or section.bootstrap == 0 or len(groups) < 2 or len(days) < _FEWEST_DAYS:
        return None
    known = {label: pd.concat([regrets[lane] for lane in mine], axis=1, join="inner") for label, mine in groups.items()}
    return comparison_table(
        {label: [books[lane] for lane in mine] for label, mine in groups.items()},
        reference,
        risk_aversion=plan.setting.risk_aversion,
        risk_free=section.risk_free_rate,
        periods_per_year=plan.periods_per_year,
        regrets=known,
        bootstrap=Bootstrap(level=section.confidence, replications=section.bootstrap),
    )


def _with_held(rows: pd.DataFrame, book: Ledger) -> pd.DataFrame:
    """Rows with a ``date``, each with the weights held on the day after it where something failed, as text."""

    def weights(date: pd.Timestamp) -> str:
        after = book.weights.index.searchsorted(date, side="right")
        if after == len(book.weights):
            return ""
        held = book.weights.iloc[after]
        shown = held if len(held) <= _MOST_SHOWN else held.nlargest(_MOST_SHOWN)
        listed = ", ".join(f"{asset} {weight:.1%}" for asset, weight in shown.items())
        return listed if len(held) == len(shown) else f"{listed} and {len(held) - len(shown)} smaller"

    failed = rows["failed"] != "" if "failed" in rows else pd.Series(True, index=rows.index)
    held = [weights(date) if lost else "" for date, lost in zip(rows["date"], failed, strict=True)]
    return rows.assign(held=pd.Series(held, index=rows.index, dtype=object))


def _mean(values: pd.Series[float]) -> float:
    return float(values.mean()) if len(values) else np.nan
