"""The stages of a study: train the windows, walk the strategies, evaluate the books, record the outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.execution.fan_out import fan_out
from portfolio_dfl.strategies.members import MemberSettings, among
from portfolio_dfl.strategies.saved import save_strategy
from portfolio_dfl.strategies.table import Lane
from portfolio_dfl.strategies.walk import JUDGED_LATER, Walk, WalkTask, take_walk, window_metrics
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.health import stop_if_all_fail
from portfolio_dfl.study.judgement import judge
from portfolio_dfl.study.page import write_study_report
from portfolio_dfl.study.plan import StudyPlan
from portfolio_dfl.study.result import StudyResult
from portfolio_dfl.tracking.mlflow_store import TrackedRun

if TYPE_CHECKING:
    from portfolio_dfl.data.features import FeatureSet
    from portfolio_dfl.training.window import TrainedWindow

__all__ = ["Progress", "evaluate", "record", "train", "walk"]

#: Called with (stage, done, total) as work proceeds.
Progress = Callable[[str, int, int], None]
Windows = dict[Lane, list["TrainedWindow"]]
Argument = TypeVar("Argument")
Result = TypeVar("Result")


def train(plan: StudyPlan, folder: RunFolder, children: Mapping[Lane, TrackedRun], show: Progress) -> Windows:
    """Train every window of every trained strategy and seed; those the folder holds are taken from there.

    With a warm start a window needs the one before it, so that only strategies and seeds run side by side.
    """
    from portfolio_dfl.training.window import train_window

    planners, trained = plan.policies, list(plan.policies)
    one_after_another = any(planner.warm_start for planner in planners.values())
    dates = plan.retrainings
    finished = folder.load_windows()
    logged = {lane: children[lane].logged_steps("seconds") for lane in trained}
    outcome: dict[tuple[Lane, int], TrainedWindow] = {}

    def keep(place: tuple[Lane, int], window: TrainedWindow) -> None:
        lane, number = place
        folder.save_window(window)
        outcome[place] = window
        if number not in logged[lane]:
            children[lane].log_metrics(window_metrics(window), step=number)
            logged[lane].add(number)
        show("Training windows", len(outcome), len(trained) * len(dates))
        if window.failed:
            stop_if_all_fail(outcome, lane)

    numbered = list(enumerate(dates))
    for together in [[pair] for pair in numbered] if one_after_another else [numbered]:
        places = [(lane, number) for number, _ in together for lane in trained]
        made = {(lane, number): plan.planner(lane, dates[number]) for lane, number in places}
        tasks = {place: planner.task(history) for place, (planner, history) in made.items()}
        keys = {place: task.key for place, task in tasks.items()}
        outcome |= {place: finished[key] for place, key in keys.items() if key in finished}
        missing = [place for place in places if place not in outcome and place[0] not in plan.originals]
        show("Training windows", len(outcome), len(trained) * len(dates))
        names = [f"training {lane.label} on {dates[number].date()}" for lane, number in missing]
        for position, window in _spread(plan, train_window, [tasks[place] for place in missing], names):
            keep(missing[position], window)
        for lane, number in [place for place in places if place not in outcome]:
            keep((lane, number), replace(outcome[plan.originals[lane], number], key=keys[lane, number]))
        if one_after_another:
            for lane, number in places:
                planners[lane].use(outcome[lane, number])
    windows = {lane: [outcome[lane, number] for number in range(len(dates))] for lane in trained}
    for lane, mine in windows.items():  # finished before an interruption, but not yet on record
        late = {n: window_metrics(window) for n, window in enumerate(mine) if n not in logged[lane]}
        children[lane].log_series(late)
    return windows


def walk(plan: StudyPlan, windows: Windows, show: Progress) -> list[Walk]:
    """Let every strategy decide on every date of the span."""
    first, last = plan.span.dates[0], plan.span.dates[-1]
    tasks = [
        WalkTask(
            plan.setting,
            lane,
            plan.returns,
            first,
            last,
            retrain_every=plan.retrain_every,
            lag=plan.ledger.lag,
            windows=windows.get(lane, []),
            decisions=None if plan.every_row else plan.span.dates,
            changing=plan.changing,
        )
        for lane in plan.lanes
        if lane not in plan.originals
    ]
    walks: dict[Lane, Walk] = {}
    show("Backtest", 0, len(tasks))
    for position, result in _spread(plan, take_walk, tasks, [f"backtesting {task.lane.label}" for task in tasks]):
        walks[tasks[position].lane] = result
        show("Backtest", len(walks), len(tasks))
    return [replace(walks[plan.originals.get(lane, lane)], lane=lane) for lane in plan.lanes]


def evaluate(
    plan: StudyPlan,
    folder: RunFolder,
    windows: Windows,
    walks: Sequence[Walk],
    facts: Mapping[str, str],
    parent: TrackedRun,
) -> StudyResult:
    """Judge the walks and write the report."""
    result = judge(plan, windows, walks, folder=folder, facts={**facts, **parent.facts})
    write_study_report(result)
    return result


def record(
    result: StudyResult,
    folder: RunFolder,
    windows: Windows,
    children: Mapping[Lane, TrackedRun],
    parent: TrackedRun,
    seconds: float,
    features: FeatureSet | None = None,
    changing: MemberSettings | None = None,
) -> None:
    """Put metrics, artifacts and models into MLflow and the run folder."""
    sheet, parameters = result.frames.tear_sheet(), folder.recorded_config().flat()
    for lane in result.lanes:
        run, book = children[lane], result.ledgers[lane.label]
        parts = (("", result.metrics), ("study_", result.scores), ("sheet_", sheet))
        run.log_metrics(
            {
                f"{prefix}{name}": float(value)
                for prefix, frame in parts
                for name, value in frame.loc[[lane.label]].iloc[0].items()
            }
        )
        run.log_params(parameters)
        for name, frame in (("weights", book.weights), ("trades", book.trades), ("daily", book.daily)):
            run.log_file(folder.save_frame(f"strategies/{lane.slug}/{name}", frame))
        if lane.trained:
            mine = result.windows[result.windows["strategy"] == lane.strategy]
            mine = mine[mine["seed"] == lane.seed]
            columns = {name: mine[name].to_list() for name in JUDGED_LATER}
            numbers_at = {n: {name: values[n] for name, values in columns.items()} for n in range(len(mine))}
            run.log_series(numbers_at)
            run.set_tags({"failed_windows": int((mine["failed"] != "").sum())})
            _record_model(result, folder, run, lane, windows[lane], features=features, changing=changing)
    parent.log_file(result.report)
    for name, frame in result.tables().items():
        parent.log_file(folder.save_frame(f"tables/{name}", frame), "tables")
    folder.save_text("facts.json", json.dumps(dict(result.facts), indent=1))  # last: it says that all is there
    folder.seal()
    parent.set_tags({"failed_windows": len(result.failed_windows)})
    parent.log_metrics({"retrainings": float(len(result.windows))})
    if not parent.logged_steps("seconds"):
        parent.log_metrics({"seconds": seconds})


def _record_model(
    result: StudyResult,
    folder: RunFolder,
    run: TrackedRun,
    lane: Lane,
    windows: Sequence[TrainedWindow],
    *,
    features: FeatureSet | None,
    changing: MemberSettings | None,
) -> None:
    """Keep the newest window that did not fail as a model; register that of the first trained strategy."""
    from portfolio_dfl.tracking.model import register_model, save_model

    usable = [window for window in windows if not window.failed]
    if not usable:
        return
    newest, decided_with = usable[-1], _decided_with(result)
    tickers, columns = list(result.ledgers[lane.label].trades.columns), None
    prices = folder.prices().loc[: newest.date]
    if changing is not None:  # a model is of the assets that it was trained on, from where all have prices
        tickers = list(changing.at(newest.date).assets)
        columns = [changing.columns[ticker] for ticker in tickers]
        gaps = np.flatnonzero(prices[tickers].isna().any(axis=1))
        prices = prices[tickers].iloc[gaps[-1] + 1 if len(gaps) else 0 :]
        decided_with = among(decided_with, tickers).override(f"data.start={prices.index[0].date()}")
    place = folder.path / "strategies" / lane.slug
    save_strategy(
        place / "strategy",
        config_yaml=decided_with.to_yaml(),
        window_file=folder.window_file(newest),
        slug=lane.slug,
        tickers=tickers,
        columns=columns,
        spreads=folder.spreads(),
        features=features,
        sources=folder.sources(),
    )
    model = save_model(place / "model", place / "strategy", prices)
    run.log_folder(model, "model")
    name = result.config.tracking.register_as
    first = next(other for other in result.lanes if other.trained)
    if name is not None and lane == first:
        register_model(run, name)


def _decided_with(result: StudyResult) -> StudyConfig:
    """The configuration with the rows a year that fees and interest of a stage were counted by."""
    costs = result.config.costs
    if costs == type(costs)():
        return result.config
    return result.config.override(f"evaluation.periods_per_year={result.periods_per_year:.12g}")


def _spread(
    plan: StudyPlan, function: Callable[[Argument], Result], arguments: Sequence[Argument], names: Sequence[str]
) -> Iterator[tuple[int, Result]]:
    execution = plan.execution
    return fan_out(
        function,
        arguments,
        names=names,
        backend=execution.backend,
        workers=execution.workers,
        address=execution.address,
    )
