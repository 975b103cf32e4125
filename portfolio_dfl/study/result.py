"""What a study found, as an object that shows itself in a terminal and in a notebook."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import TrackingError
from portfolio_dfl.report.gallery import Gallery
from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.tables import metrics_table, metrics_text
from portfolio_dfl.strategies.cash import cash_remark
from portfolio_dfl.strategies.table import Lane, lanes
from portfolio_dfl.study.comparison_text import comparison_text, seeds_table
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.frames import Frames
from portfolio_dfl.study.frequency import frequency_remark
from portfolio_dfl.study.health import gradient_remarks
from portfolio_dfl.study.obedience import limit_remarks, limited_books, seen_covariances
from portfolio_dfl.study.replicates import replicate_remarks
from portfolio_dfl.study.universe import universe_remark
from portfolio_dfl.tracking.mlflow_store import moved_along, recorded_at
from portfolio_dfl.wording import counted
from portfolio_dfl.wording.periods import period_noun

if TYPE_CHECKING:
    from portfolio_dfl.backtest import Ledger
    from portfolio_dfl.data.panel import PricePanel

__all__ = ["StudyResult", "load_result"]

_FAILED_LISTED = 5


@dataclass(frozen=True)
class StudyResult:
    """Everything a study found.

    Attributes
    ----------
    config : StudyConfig
    lanes : sequence of Lane
        The strategies, one entry a seed for trained ones.
    ledgers : mapping of label to Ledger
        Books of each.
    metrics : DataFrame
        One row a strategy; all after costs.
    costs : DataFrame
        The metrics again at several cost levels, rows (strategy, cost rate).
    scores : DataFrame
        One row a strategy: ``mse`` of its forecasts beside ``regret``, ``break_even_cost`` against the reference
        (of the same seed), ``break_even_holding`` against buy and hold, ``deflated_sharpe`` and the number of
        ``trials`` that it counts.
    comparison : DataFrame or None
        Differences to the reference with intervals, rows (strategy, statistic), averages over the seeds of both.
    regrets : mapping of label to Series
        Regret by day against the best decision in hindsight.
    covariances : DataFrame
        ``shrinkage`` and ``ridge`` that the covariance of each decision date received.
    windows : DataFrame
        One row a retraining of each trained strategy.
    failures : DataFrame
        Decisions that failed and held what was held.
    flags : DataFrame
        What was found in the data.
    facts : mapping
        Where the result comes from: data, commit, versions.
    folder, report : Path
        The run's folder and its page.
    universes : DataFrame or None
        Where members change: ``since`` when which ``asset`` was ``chosen`` or waited for a history, which ``begins``.
    """

    config: StudyConfig
    lanes: tuple[Lane, ...]
    ledgers: Mapping[str, Ledger]
    metrics: pd.DataFrame
    costs: pd.DataFrame
    scores: pd.DataFrame
    comparison: pd.DataFrame | None
    regrets: Mapping[str, pd.Series[float]]
    covariances: pd.DataFrame
    windows: pd.DataFrame
    failures: pd.DataFrame
    flags: pd.DataFrame
    facts: Mapping[str, str]
    folder: Path
    report: Path
    universes: pd.DataFrame | None = None

    @property
    def store(self) -> str:
        """MLflow's tracking URI."""
        return recorded_at(self.facts)[0]

    @property
    def run_id(self) -> str:
        """MLflow's parent run."""
        return recorded_at(self.facts)[1]

    @property
    def periods_per_year(self) -> float:
        """Rows a year that the numbers are annualised by, as set or as the dates of the data told."""
        from portfolio_dfl.backtest.rhythm import periods_per_year_of

        given = self.config.evaluation.periods_per_year or self.facts.get("periods_per_year")
        days = next(iter(self.ledgers.values())).daily.index
        return periods_per_year_of(days) if given is None else float(given)

    @property
    def period(self) -> str:
        """What a row of the books is called: a day, a week, a month."""
        return period_noun(self.periods_per_year)

    @property
    def risk_free(self) -> float:
        """Risk-free rate a year."""
        return self.config.evaluation.risk_free_rate

    @property
    def reference(self) -> str:
        """Strategy that differences are taken against, by its name in the configuration."""
        return self.config.evaluation.reference

    @cached_property
    def returns(self) -> pd.DataFrame | None:
        """Simple returns of the assets on the days of the ledgers; None where the run's prices are gone."""
        try:
            panel = self._panel()
        except (TrackingError, OSError):
            return None
        return panel.earned.reindex(next(iter(self.ledgers.values())).daily.index)

    @property
    def groups(self) -> dict[str, str]:
        """Group of each asset that has one: as ``allocation.limits`` says, of several the first."""
        limits = self.config.allocation.limits
        found = dict(limits.group_of) if isinstance(limits.group_of, dict) else {}
        for name, group in limits.groups.items():
            for ticker in group.tickers or ():
                found.setdefault(ticker, name)
        return found

    @property
    def plot(self) -> Gallery:
        """The report's figures, a method each: ``result.plot.wealth()``."""
        return Gallery(self)

    @property
    def frames(self) -> Frames:
        """All frames of the result, a method each: ``result.frames.drawdowns()``."""
        return Frames(self)

    def to_frame(self, name: str = "metrics") -> pd.DataFrame:
        """One of :attr:`frames` by name, unasked the metrics.

        Raises
        ------
        TrackingError
            If there is no frame of that name.
        """
        names = [known for known in dir(Frames) if not known.startswith("_")]
        if name not in names:
            raise TrackingError(f"no frame is named {name!r}; there are {', '.join(names)}")
        found: pd.DataFrame = getattr(self.frames, name)()
        return found

    @property
    def failed_windows(self) -> pd.DataFrame:
        """Retrainings without an outcome."""
        return self.windows[self.windows["failed"] != ""] if len(self.windows) else self.windows

    @property
    def limits_note(self) -> str:
        """How far the strategy that is never traded drifted beyond a largest weight; nothing where it did not."""
        largest = self.config.allocation.max_weight
        held = next((lane.label for lane in self.lanes if lane.never_trades), None)
        if largest is None or held is None:
            return ""
        reached = float(self.ledgers[held].weights.to_numpy().max())
        if reached <= largest:
            return ""
        return (
            f"{held} is bound by no limit: its largest weight was {reached:.1%}, "
            f"the others aim at {largest:.1%} at most."
        )

    @property
    def gradient_remarks(self) -> list[str]:
        """A sentence for each strategy with trainings that most samples taught nothing; nothing where all is well."""
        return gradient_remarks(self.windows)

    @property
    def remarks(self) -> list[str]:
        """What a reader of the numbers must know beside them, a sentence each: all that did not go as it should."""
        found = list(self.gradient_remarks)
        if self.config.data.source.startswith("synthetic"):
            found.append("Synthetic prices: made up by a known rule, not a market.")
        if cash_remark(self.config):
            found.append(cash_remark(self.config))
        if self.limits_note:
            found.append(self.limits_note)
        books = limited_books(self.config, self.ledgers, self.universes, self._panel)
        found += limit_remarks(books, self.lanes, self._covariances)
        found += [] if self.universes is None else [universe_remark(self.universes, self.config)]
        days = next(iter(self.ledgers.values())).daily.index
        remark = frequency_remark(self.config, days, self.covariances.index, self.period)
        found += [remark] if remark else []
        found += replicate_remarks(self.lanes, self.ledgers)
        if len(self.failed_windows):
            retrainings = counted(len(self.windows), "retraining")
            found.append(f"{len(self.failed_windows)} of {retrainings} failed{_listed(self.failed_windows)}.")
        decided = self.failures[self.failures["what"] == "decide"]
        for strategy, mine in decided.groupby("strategy", sort=False):
            first = mine.iloc[0]
            found.append(
                f"{len(mine)} of {len(self.covariances)} decisions of {strategy} failed and held what was held, the "
                f"first on {first['date']:%Y-%m-%d}: {first['message']}."
            )
        for strategy, mine in self.failures[self.failures["what"] == "regret"].groupby("strategy", sort=False):
            found.append(f"The regret of {strategy} could not be computed: {mine.iloc[0]['message']}.")
        for _, lost in self.failures[self.failures["what"] == "metric"].iterrows():
            found.append(f"A metric of {lost['strategy']} could not be computed: {lost['message']}.")
        return found

    @cached_property
    def _covariances(self) -> Callable[[pd.Timestamp], NDArray[np.float64] | None]:
        """Covariance of a stage that plans saw on the day before, by the day that opens with their trades."""
        if self.universes is not None:  # one for each, which are not kept apart here
            return lambda date: None
        try:
            returns = self._panel().returns
        except (TrackingError, OSError):
            return lambda date: None
        return seen_covariances(self.config, returns)

    def _panel(self) -> PricePanel:
        return RunFolder(self.folder).panel()

    @property
    def seeds(self) -> pd.DataFrame:
        """Median and range over seeds: rows (strategy, cost rate), columns (metric, "median" | "min" | "max")."""
        return seeds_table(self.lanes, self.costs)

    @property
    def weights(self) -> dict[str, pd.DataFrame]:
        """Weights held through each day, by strategy."""
        return {label: book.weights for label, book in self.ledgers.items()}

    def tables(self) -> dict[str, pd.DataFrame]:
        """The frames of the result without their books, by name, with plain columns."""
        tables = {
            "metrics": self.metrics.reset_index(),
            "costs": self.costs.reset_index(),
            "scores": self.scores.reset_index(),
            "seeds": _plain_columns(self.seeds),
            "covariances": self.covariances,
            "regrets": pd.DataFrame(dict(self.regrets)),
            "windows": self.windows,
            "failures": self.failures,
            "data_flags": self.flags,
        }
        if self.universes is not None:
            tables["universes"] = self.universes
        if self.comparison is not None:
            tables["comparison"] = self.comparison.reset_index()
        return tables

    def __str__(self) -> str:
        days = next(iter(self.ledgers.values())).daily.index
        lines = [
            f"{self.config.name}: {counted(len(days), self.period)}, {days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}, "
            f"after costs of {self.config.costs.in_words(self.config.backtest.cost_rate)}, annualised by "
            f"{self.periods_per_year:g} "
            "rows a year",
            *self.gradient_remarks,
            "",
            metrics_text(self.metrics),
            "",
        ]
        lines += self.remarks[len(self.gradient_remarks) :]
        lines += [f"report  {self.report}", f"MLflow  {self.store}", f"run     {self.folder}"]
        return "\n".join(lines)

    def comparison_text(self) -> str:
        """The metrics at several costs, scores, and the differences to the reference, for a terminal."""
        return comparison_text(self.config, self.lanes, self.seeds, self.scores, self.comparison)

    def _repr_html_(self) -> str:
        looks = looks_of(self.lanes)
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return (
            f"<p><b>{escape(self.config.name)}</b>, annualised by {self.periods_per_year:g} rows a year, report at "
            f"{escape(str(self.report))}</p>{metrics_table(self.metrics, looks)}{remarks}"
        )


def _plain_columns(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_axis(["_".join(column) for column in frame.columns], axis=1).reset_index()


def _listed(failed: pd.DataFrame) -> str:
    """Which retrainings failed, where more than one did."""
    if len(failed) < 2:
        return ""
    first = [
        f"{row['strategy']} on {row['date']:%Y-%m-%d}" + (f" (seed {row['seed']})" if "seed" in row else "")
        for _, row in failed.head(_FAILED_LISTED).iterrows()
    ]
    more = len(failed) - len(first)
    return f": {', '.join(first)}{f' and {more} more' if more else ''}"


def load_result(run: str | os.PathLike[str], *, root: str | os.PathLike[str] = "runs") -> StudyResult:
    """Read a finished study from its folder.

    Parameters
    ----------
    run : path or str
        The run's folder, or its name under ``root``.
    root : path
        Folder of runs.

    Raises
    ------
    TrackingError
        If there is no such run or it has not finished.
    """
    from portfolio_dfl.backtest import Ledger

    folder = RunFolder.open(run, root)
    if not (folder.path / "facts.json").is_file():
        raise TrackingError(
            f"run {folder.name} has not finished; `portfolio-dfl resume {folder.reference}` continues it"
        )
    config = folder.config()
    if config.allocation.limits.own:
        folder.sources().restore(folder.parts)  # remarks look at how limits were kept to
    facts = json.loads(folder.read_text("facts.json"))
    if config.tracking.uri is None:
        facts = moved_along(facts, config.tracking.folder)
    found = lanes(config.backtest.strategies, config.training.seeds)
    charged = _charged(folder, config)
    ledgers = {}
    for lane in found:
        books: dict[str, Any] = {
            part: folder.read_frame(f"strategies/{lane.slug}/{part}") for part in ("daily", "weights", "trades")
        }
        ledgers[lane.label] = Ledger(name=lane.label, lag=config.backtest.lag, **books, **charged)
    regrets = folder.read_frame("tables/regrets")
    compared = (folder.path / "tables" / "comparison.parquet").is_file()
    return StudyResult(
        config=config,
        lanes=found,
        ledgers=ledgers,
        metrics=folder.read_frame("tables/metrics").set_index("strategy"),
        costs=folder.read_frame("tables/costs").set_index(["strategy", "cost_rate"]),
        scores=folder.read_frame("tables/scores").set_index("strategy"),
        comparison=folder.read_frame("tables/comparison").set_index(["strategy", "statistic"]) if compared else None,
        regrets={str(name): regrets[name].dropna() for name in regrets},
        covariances=folder.read_frame("tables/covariances"),
        windows=folder.read_frame("tables/windows"),
        failures=folder.read_frame("tables/failures"),
        flags=folder.flags(),
        facts=facts,
        folder=folder.path,
        report=folder.path / "report.html",
        universes=folder.read_frame("tables/universes") if config.data.members is not None else None,
    )


def _charged(folder: RunFolder, config: StudyConfig) -> dict[str, Any]:
    """What the books of a run were charged, as attributes of a ledger."""
    from portfolio_dfl.backtest.ledger import charged_with
    from portfolio_dfl.strategies.setting import build_costs

    costs = build_costs(config, folder.spreads())
    if costs.plain:
        return charged_with(costs)
    closes = folder.prices().index
    first = folder.read_frame(f"strategies/{lanes(config.backtest.strategies, config.training.seeds)[0].slug}/daily")
    return {**charged_with(costs), "opened": closes[closes.searchsorted(first.index[0]) - 1]}
