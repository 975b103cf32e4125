"""From a study's result to its page: how its first sentences read, and what its notes say."""

from __future__ import annotations

import pandas as pd

from portfolio_dfl.report.page import PageText, write_report
from portfolio_dfl.strategies.table import appearance
from portfolio_dfl.study.frequency import plan_text
from portfolio_dfl.study.replicates import replicate_remarks
from portfolio_dfl.study.result import StudyResult
from portfolio_dfl.tracking.places import written
from portfolio_dfl.wording import counted

__all__ = ["page_text", "write_study_report"]


def write_study_report(result: StudyResult) -> None:
    """Write the page of a result to where the result says it is."""
    with written(result.report):
        write_report(result.report, result, page_text(result))


def page_text(result: StudyResult) -> PageText:
    """The page's words."""
    return PageText(
        title=result.config.name,
        subtitle=_subtitle(result),
        lead=_lead(result),
        scores_note=_scores_note(result),
        comparison_note=_comparison_note(result),
        config_yaml=result.config.to_yaml(),
        synthetic=result.config.data.source.startswith("synthetic"),
    )


def _subtitle(result: StudyResult) -> str:
    config = result.config
    book = next(iter(result.ledgers.values()))
    days, tickers = book.daily.index, [str(column) for column in book.weights.columns]
    listed = ", ".join(tickers) if len(tickers) <= 10 else f"{len(tickers)} assets"
    return (
        f"{listed} · {_day(days[0])} to {_day(days[-1])}, {counted(len(days), result.period, thousands=True)} · "
        f"{plan_text(config, result.period)}, λ {config.allocation.risk_aversion:g}, "
        f"τ {_limits(config.allocation.turnover_limit)} · costs {config.costs.in_words(config.backtest.cost_rate)} "
        f"· annualised by {result.periods_per_year:g} rows a year"
    )


def _limits(turnover: float | list[float] | None) -> str:
    if turnover is None:
        return "none"
    return " then ".join(f"{limit:g}" for limit in turnover) if isinstance(turnover, list) else f"{turnover:g}"


def _lead(result: StudyResult) -> str:
    real = [lane.label for lane in result.lanes if not lane.foresight] or list(result.metrics.index)
    ended = sorted((float(row["final_wealth"]), str(label)) for label, row in result.metrics.loc[real].iterrows())
    best, worst = ended[-1], ended[0]
    if len(ended) == 1:
        text = f"After costs, {best[1]} turned 1 into {best[0]:.3f}."
    else:
        text = (
            f"After costs, 1 became between {worst[0]:.3f} ({worst[1]}) and {best[0]:.3f} ({best[1]}). "
        ) + _main_outcome(result)
    first, all_told = result.gradient_remarks, result.remarks
    told = [remark for remark in all_told[len(first) :] if not remark.startswith("Synthetic")]  # a banner says that
    return " ".join([*first, text.rstrip(), *told])


def _main_outcome(result: StudyResult) -> str:
    """Decision-focused training against the reference, in words that the interval allows."""
    main = next((lane.strategy_label for lane in result.lanes if lane.look.main), None)
    table = result.comparison
    if main is None or table is None or (main, "sharpe") not in table.index:
        return ""
    row = table.xs("sharpe", level="statistic").loc[main].to_dict()
    if pd.isna(row["estimate"]):
        return ""
    reference = appearance(result.config.evaluation.reference).label
    count = len(result.config.training.seeds)
    seeds = f", in the mean of {count} seeds," if count > 1 else ""
    verdict = "an interval without 0" if row["excludes_zero"] else "which does not tell the two apart from chance"
    return (
        f"Against {reference.lower()}, decision-focused training{seeds} changed the Sharpe ratio by "
        f"{_signed(row['estimate'])} ({row['level']:.0%} interval {_signed(row['low'])} to {_signed(row['high'])}), "
        f"{verdict}."
    )


def _comparison_note(result: StudyResult) -> str:
    if result.comparison is None or result.comparison.empty:
        return ""
    section = result.config.evaluation
    reference = appearance(section.reference).label
    seeds = ", both averaged over their seeds" if len(result.config.training.seeds) > 1 else ""
    return (
        f"Each strategy minus {reference.lower()}{seeds}, with {section.confidence:.0%} intervals from a paired "
        f"stationary bootstrap of the {result.period}s ({section.bootstrap:,} resamples, block lengths chosen by the "
        "data). Every interval stands for itself: of twenty that should cover 0, one may miss it by chance. One "
        "span of one market, however long, is one draw: what an interval covers here need not hold elsewhere."
    )


def _scores_note(result: StudyResult) -> str:
    reference = appearance(result.config.evaluation.reference).label
    earlier = result.config.evaluation.earlier_trials
    before = f", and {earlier} from before" if earlier else ""
    trials = counted(int(result.scores["trials"].iloc[0]), "trial")
    counted_once = ", those with the same books once" if replicate_remarks(result.lanes, result.ledgers) else ""
    return (
        f"The reference is {reference.lower()}. {trials}: every strategy and seed of this study{counted_once}, "
        f"hindsight left out{before}."
    )


def _signed(value: float) -> str:
    text = f"{value:+.2f}".replace("-", "−")
    return "0.00" if text[1:] == "0.00" else text


def _day(stamp: pd.Timestamp) -> str:
    return f"{stamp.day} {stamp:%b %Y}"
