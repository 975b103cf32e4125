"""A study end to end on real prices: what it leaves, that it resumes to the same numbers, and on every backend."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_study import same_weights, small, statuses

from portfolio_dfl.allocation.limits import BoxLimits
from portfolio_dfl.backtest.costs import break_even_cost
from portfolio_dfl.backtest.deflation import deflated_sharpe
from portfolio_dfl.backtest.regret import decision_regret
from portfolio_dfl.config.study import load_config
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.errors import ConfigError, DataError, PortfolioError, TrackingError, TrainingError
from portfolio_dfl.risk import RollingCovariance, estimate_path
from portfolio_dfl.strategies.setting import build_estimator
from portfolio_dfl.strategies.table import TABLE
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import compare_study, resume_study, run_study, train_study
from portfolio_dfl.study.span import decision_span, load_panel
from portfolio_dfl.study.sweep import run_sweep, validation_score
from portfolio_dfl.tracking.mlflow_store import download_model, open_store


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return run_study(small(tmp_path_factory.mktemp("runs"), "tracking.register_as=decisions"))


def test_the_table_has_a_row_for_each_strategy(done: StudyResult) -> None:
    labels = ["Decision-focused", "Two-stage", "Equal weight", "Buy and hold", "Minimum variance"]
    assert done.metrics.index.to_list() == labels
    assert done.metrics[["cagr", "volatility", "sharpe", "max_drawdown", "turnover", "cost"]].notna().all().all()
    shown = str(done)
    assert all(label in shown for label in labels)
    assert str(done.report) in shown
    assert done.store in shown


def test_the_result_shows_itself_in_a_notebook(done: StudyResult) -> None:
    assert "<table>" in done._repr_html_()


def test_windows_are_on_record_with_labels_that_end_in_time(done: StudyResult) -> None:
    windows = done.windows
    assert windows.groupby("strategy").size().to_dict() == {"decision_focused": 7, "two_stage": 7}
    assert (windows["last_label_end"] <= windows["date"]).all()
    assert (windows["failed"] == "").all()
    assert windows["mse"].notna().all()


def test_mlflow_holds_the_parent_and_a_child_for_each_strategy(done: StudyResult) -> None:
    store = open_store(done.config.tracking.folder, experiment="small")
    children = store.client.search_runs([store.experiment_id], f"tags.`mlflow.parentRunId` = '{done.run_id}'")
    assert {run.info.run_name for run in children} == {
        "decision_focused-seed0",
        "two_stage-seed0",
        "equal_weight",
        "buy_and_hold",
        "minimum_variance",
    }
    assert {run.info.status for run in children} == {"FINISHED"}
    parent = store.client.get_run(done.run_id)
    assert parent.data.params["training.epochs"] == "2"
    assert parent.data.tags["data_sha256"] == done.facts["data_sha256"]
    assert parent.data.tags["failed_windows"] == "0"
    trained = next(run for run in children if run.info.run_name == "decision_focused-seed0")
    assert trained.data.metrics["sharpe"] == done.metrics.loc["Decision-focused", "sharpe"]
    assert -1.0 < trained.data.metrics["sheet_expected_shortfall"] <= trained.data.metrics["sheet_value_at_risk"] < 0.0
    assert len(store.client.get_metric_history(trained.info.run_id, "train_loss")) == 7
    names = {entry.path for entry in store.client.list_artifacts(trained.info.run_id)}
    assert names >= {"weights.parquet", "trades.parquet", "daily.parquet"}
    assert {entry.path for entry in store.client.list_artifacts(done.run_id)} >= {"report.html", "config.yaml"}


def test_the_run_folder_repeats_the_study(done: StudyResult) -> None:
    folder = RunFolder.open(done.folder)
    assert folder.config() == done.config
    assert len(folder.load_windows()) == 14
    assert pd.read_parquet(done.folder / "strategies/equal_weight/weights.parquet").equals(done.weights["Equal weight"])


def test_resuming_a_finished_study_trains_nothing_and_finds_the_same(done: StudyResult) -> None:
    files = {path: path.stat().st_mtime_ns for path in (done.folder / "windows").iterdir()}
    again = resume_study(done.folder.name, root=done.config.tracking.folder)
    assert same_weights(done, again)
    assert again.run_id == done.run_id
    assert {path: path.stat().st_mtime_ns for path in (done.folder / "windows").iterdir()} == files
    store = open_store(done.config.tracking.folder, experiment="small")
    child = store.find_run({"mlflow.parentRunId": done.run_id, "lane": "decision_focused-seed0"})
    assert len(store.client.get_metric_history(child, "train_loss")) == 7


def test_processes_find_the_same(done: StudyResult, tmp_path: Path) -> None:
    parallel = run_study(small(tmp_path, "execution.backend=loky", "execution.workers=2"))
    assert same_weights(done, parallel)


def test_a_finished_study_is_read_back_as_it_was(done: StudyResult) -> None:
    again = load_result(done.folder.name, root=done.config.tracking.folder)
    assert same_weights(done, again)
    for name, table in done.tables().items():
        pd.testing.assert_frame_equal(again.tables()[name], table, check_dtype=False, check_freq=False)
    assert str(again) == str(done)


def test_an_unfinished_study_is_not_read(tmp_path: Path) -> None:
    trained = train_study(small(tmp_path, "backtest.strategies=[two_stage]"))
    assert {label: len(windows) for label, windows in trained.windows.items()} == {"Two-stage": 7}
    with pytest.raises(TrackingError, match="portfolio-dfl resume"):
        load_result(trained.folder)


def decision(done: StudyResult) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Prices up to a date after the last retraining, what was held there, and what was decided."""
    book = done.ledgers["Decision-focused"]
    day = book.weights.index[-2]
    held = book.weights.loc[day] - book.trades.loc[day]
    prices = RunFolder.open(done.folder).prices()
    return prices.loc[: day - pd.Timedelta(days=1)], held, book.weights.loc[day]


def test_the_registered_model_decides_as_the_backtest_did(done: StudyResult) -> None:
    import mlflow.pyfunc

    prices, held, expected = decision(done)
    place = download_model(done.config.tracking.folder, "models:/decisions/1")
    model = mlflow.pyfunc.load_model(str(place))
    answer = model.predict(prices, params={"held": held.to_list()})
    pd.testing.assert_series_equal(answer.iloc[0], expected, check_names=False, rtol=0, atol=1e-10)
    assert model.metadata.signature.inputs.input_names() == list(prices.columns)
    assert model.metadata.load_input_example(str(place)) is not None


def test_advice_is_the_backtests_decision(done: StudyResult, tmp_path: Path) -> None:
    prices, held, expected = decision(done)
    holdings = tmp_path / "holdings.csv"
    pd.DataFrame({"ticker": held.index, "value": 1e6 * held.to_numpy()}).to_csv(holdings, index=False)
    today = prices.index[-1].date()
    advice = advise(done.folder, prices=prices, holdings=holdings, today=today)
    pd.testing.assert_series_equal(advice.target, expected, check_names=False, rtol=0, atol=1e-8)
    assert advice.age == 0
    assert advice.turnover == pytest.approx((expected - held).abs().sum(), abs=1e-8)
    assert advice.turnover <= advice.turnover_limit + 1e-8
    later = advise(done.folder, prices=RunFolder.open(done.folder).prices(), holdings=holdings, today=today)
    assert later.target.equals(advice.target)  # prices after today are not looked at


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"today": dt.date(2018, 10, 30)}, r"\d\d days old and more than the 5 days allowed"),
        ({"holdings": pd.Series({"XYZ": 1.0})}, "holdings name XYZ"),
        ({"holdings": pd.Series({"MTUM": 0.0})}, "not all zero"),
        ({"holdings": "absent.csv"}, "no holdings file"),
        ({"strategy": "risk_parity"}, "no trained strategy risk_parity"),
    ],
)
def test_advice_is_refused_with_a_reason(done: StudyResult, options: dict[str, Any], message: str) -> None:
    prices, _, _ = decision(done)
    with pytest.raises(PortfolioError, match=message):
        advise(done.folder, **{"prices": prices, "today": prices.index[-1].date(), **options})


def test_a_search_resumes_and_its_best_scores_the_same_again(tmp_path: Path) -> None:
    space = "sweep.space={training.learning_rate: {low: 0.0001, high: 0.01, log: true}, allocation.horizon: [1, 2]}"
    config = small(tmp_path, space, "sweep.days=20", "sweep.trials=2")
    first = run_sweep(config)
    second = run_sweep(config.override(["sweep.trials=3"]))
    assert second.trials["trial"].to_list() == [0, 1, 2]
    pd.testing.assert_frame_equal(second.trials.iloc[:2], first.trials)
    returns = load_panel(config).returns
    known = returns.loc[: decision_span(config, returns).dates[0]]
    last = len(known) - 2
    again = validation_score(second.best, known, known.index[last - 19], known.index[last])
    assert again == second.score
    assert load_config(second.path) == second.best
    runs = statuses(tmp_path)
    assert sorted(name.split("/")[-1] for name in runs if "/" in name) == ["trial 0", "trial 1", "trial 2"]
    assert set(runs.values()) == {"FINISHED"}


def test_a_search_without_a_space_or_days_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sweep\.space is empty"):
        run_sweep(small(tmp_path))
    with pytest.raises(ConfigError, match=r"the nearest is training\.epochs"):
        run_sweep(small(tmp_path, "sweep.space={training.epoch: [1]}"))
    with pytest.raises(ConfigError, match=r"sweep\.days 200"):
        run_sweep(small(tmp_path, "sweep.space={training.epochs: [1]}", "sweep.days=200"))


def test_a_warm_start_resumes_to_the_same(tmp_path: Path) -> None:
    first = run_study(small(tmp_path, "training.warm_start=true", "backtest.strategies=[decision_focused]"))
    kept = sorted((first.folder / "windows").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for path in kept[3:]:
        path.unlink()
    assert same_weights(first, resume_study(first.folder))


def test_a_terminated_study_leaves_no_run_open(tmp_path: Path) -> None:
    config = tmp_path / "small.yaml"
    config.write_text(small(tmp_path / "runs").to_yaml())
    command = [sys.executable, "-m", "portfolio_dfl.cli", "run", str(config)]
    with (tmp_path / "output").open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        while process.poll() is None and not list(tmp_path.glob("runs/small*/windows/*.pt")):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM, (tmp_path / "output").read_text()
    assert set(statuses(tmp_path / "runs").values()) == {"KILLED"}


def test_several_seeds_are_several_rows(tmp_path: Path) -> None:
    names = "backtest.strategies=[decision_focused, equal_weight]"
    result = run_study(small(tmp_path, names, "training.seeds=[0, 1]", "forecasting.predictor=mlp"))
    assert result.metrics.index.to_list() == ["Decision-focused, seed 0", "Decision-focused, seed 1", "Equal weight"]
    first, second = (result.weights[f"Decision-focused, seed {seed}"] for seed in (0, 1))
    assert not first.equals(second)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    """Every strategy, two seeds that differ, shrinkage, and trials from before."""
    return compare_study(
        small(
            tmp_path_factory.mktemp("compared"),
            "training.seeds=[0, 1]",
            "forecasting.predictor=mlp",
            "training.risk_scaling=true",
            "covariance.estimator=oas",
            "evaluation.earlier_trials=5",
        )
    )


def test_a_comparison_runs_every_strategy_that_the_table_compares_and_every_seed(compared: StudyResult) -> None:
    assert {(lane.strategy, lane.seed) for lane in compared.lanes} == {
        *((name, seed) for name in ("decision_focused", "two_stage") for seed in (0, 1)),
        *((name, None) for name, entry in TABLE.items() if entry.compared and entry.kind != "trained"),
    }
    assert compared.metrics.index[-1] == "Perfect foresight (ceiling)"
    assert compared.metrics["final_wealth"].idxmax() == "Perfect foresight (ceiling)"


def test_squared_error_stands_beside_regret_break_even_and_deflated_sharpe(compared: StudyResult) -> None:
    scores = compared.scores
    assert scores.index.equals(compared.metrics.index)
    trained = [lane.label for lane in compared.lanes if lane.trained]
    assert scores["mse"].notna().to_dict() == {label: label in trained for label in scores.index}
    assert (scores["regret"] >= -1e-12).all()
    assert scores["regret"].idxmin() == "Perfect foresight (ceiling)"
    assert set(scores["trials"]) == {4 + 5 + 5}  # trained strategies and seeds, rules, and those from before
    label, reference = "Decision-focused, seed 1", "Two-stage, seed 1"
    sharpes = compared.metrics["sharpe"].drop("Perfect foresight (ceiling)")
    book = compared.ledgers[label]
    assert scores.loc[label, "deflated_sharpe"] == deflated_sharpe(book.net_returns, sharpes, earlier_trials=5)
    assert pd.isna(scores.loc["Perfect foresight (ceiling)", "deflated_sharpe"])
    for column, other in (("break_even_cost", reference), ("break_even_holding", "Buy and hold")):
        expected = break_even_cost(book, compared.ledgers[other])
        assert scores.loc[label, column] == pytest.approx(expected, nan_ok=True)


def test_seeds_are_summarised_by_median_and_range_at_every_cost(compared: StudyResult) -> None:
    summary = compared.seeds
    assert summary.index.to_list() == [
        (name, level)
        for name in dict.fromkeys(lane.strategy_label for lane in compared.lanes)
        for level in (0, 5e-4, 1e-3)
    ]
    for level in (0, 5e-4, 1e-3):
        sharpes = [compared.costs.loc[(f"Two-stage, seed {seed}", level), "sharpe"] for seed in (0, 1)]
        assert sharpes[0] != sharpes[1]
        found = summary.loc[("Two-stage", level), "sharpe"]
        assert found.to_dict() == {"median": sum(sharpes) / 2, "min": min(sharpes), "max": max(sharpes)}
    text = compared.comparison_text()
    for part in ("At costs of 10 bp", "lowest", "highest", "Deflated Sharpe", "MSE", "14 trials", "means over seeds"):
        assert part in text


def test_differences_are_between_means_over_seeds(compared: StudyResult) -> None:
    table = compared.comparison
    assert table is not None
    strategies = {lane.strategy_label for lane in compared.lanes} - {"Two-stage"}
    assert set(table.index.to_flat_index()) == {
        (name, statistic) for name in strategies for statistic in ("sharpe", "utility", "regret")
    }
    mean = compared.metrics["sharpe"].groupby(lambda label: label.split(",")[0]).mean()
    expected = mean["Decision-focused"] - mean["Two-stage"]
    assert table.loc[("Decision-focused", "sharpe"), "estimate"] == pytest.approx(expected)


def test_the_shrinkage_of_the_decisions_and_the_learned_one_are_on_record(compared: StudyResult) -> None:
    config = compared.config
    returns = load_panel(config).returns
    path = estimate_path(returns, build_estimator(config))
    used = pd.Series(path.shrinkage, index=path.dates).loc[compared.covariances.index]
    assert (used > 0).all()
    pd.testing.assert_series_equal(compared.covariances["shrinkage"], used, check_names=False)
    assert compared.covariances.index.equals(decision_span(config, returns).dates)
    windows = compared.windows.set_index(["strategy", "seed", "window"])
    first = compared.windows["date"].iloc[:2].to_list()
    expected = used[(used.index >= first[0]) & (used.index < first[1])].mean()
    assert windows.loc[("decision_focused", 0, 0), "shrinkage"] == pytest.approx(expected)
    learned = windows["learned_shrinkage"]
    assert learned.loc["decision_focused"].between(0, 1).all()
    assert learned.loc["two_stage"].isna().all()
    store = open_store(config.tracking.folder, experiment="small")
    child = store.find_run({"mlflow.parentRunId": compared.run_id, "lane": "decision_focused-seed0"})
    for name in ("shrinkage", "learned_shrinkage", "layer_failures", "forecast_inflation", "regret"):
        assert len(store.client.get_metric_history(child, name)) == 7


def test_the_report_shows_the_scores_and_names_the_ceiling(compared: StudyResult) -> None:
    page = compared.report.read_text()
    lead = page.split('class="lead"')[1].split("</p>")[0] if 'class="lead"' in page else page[: page.index("<h2>")]
    assert "in the mean of 2 seeds" in lead
    assert "ceiling" not in lead
    for part in (
        "The ceiling is left out",
        "Break-even",
        "over holding",
        "Deflated Sharpe",
        "14 trials",
        "Perfect foresight (ceiling)",
        "averaged over",
    ):
        assert part in page


def test_a_failure_that_repeats_in_the_first_windows_stops_the_study_with_one_reason(tmp_path: Path) -> None:
    done: list[int] = []
    config = small(tmp_path, "backtest.strategies=[decision_focused, buy_and_hold]", "training.learning_rate=1e6")
    with pytest.raises(TrainingError, match=r"first 3 trainings of Decision-focused, from 2018-06-01 on") as told:
        run_study(config, progress=lambda stage, count, total: done.append(count))
    assert max(done) == 3
    assert str(told.value).count("training diverged") == 1


def test_limits_that_training_cannot_meet_stop_the_study_naming_limit_and_date_once(tmp_path: Path) -> None:
    config = small(
        tmp_path,
        "backtest.strategies=[decision_focused]",
        "allocation.max_weight=0.2001",  # which prices leave at once
        "allocation.turnover_limit=1e-4",
    )
    with pytest.raises(TrainingError, match="first 3 trainings of Decision-focused") as told:
        run_study(config)
    message = str(told.value)
    assert message.count("at most 0.2001") == 1
    assert message.count("2018-04-") + message.count("2018-05-") == 1
    assert "batch element" not in message


def test_a_window_without_a_feasible_portfolio_is_shown_with_the_weights_held(tmp_path: Path) -> None:
    """A price that doubles for one day drifts past the largest weight, too far for the turnover limit to bring back."""
    prices = EmbeddedSource().load().loc["2018-01-02":"2018-12-31"].copy()
    spike = pd.Timestamp("2018-06-20")
    prices.loc[spike, "SIZE"] *= 2.0
    prices.to_parquet(tmp_path / "prices.parquet")
    result = run_study(
        small(
            tmp_path,
            f"data.source={tmp_path / 'prices.parquet'}",
            "data.policies={jumps: accept}",
            "allocation.max_weight=0.25",
            "allocation.turnover_limit=0.05",
            "backtest.strategies=[decision_focused, two_stage, minimum_variance]",
        )
    )
    failed = result.failed_windows
    assert set(failed["strategy"]) == {"decision_focused"}  # squared error solves no portfolio problem
    assert 0 < len(failed) < 7
    assert (failed["date"] > spike).all()
    assert (failed["layer_failures"] == 1).all()
    assert failed["failed"].str.startswith("AllocationError").all()
    refused = result.failures[result.failures["what"] == "decide"]
    assert (refused["date"] == spike).all()
    assert set(refused["strategy"]) == {"Decision-focused", "Two-stage", "Minimum variance"}
    assert refused["held"].str.contains("SIZE 40").all()
    assert result.windows.groupby("strategy")["failed_decisions"].sum().to_dict() == {
        "decision_focused": 1.0,
        "two_stage": 1.0,
    }
    book, page = result.ledgers["Decision-focused"], result.report.read_text()
    for window in failed.itertuples():
        after = book.weights[book.weights.index > window.date]
        assert window.held == ", ".join(f"{name} {weight:.1%}" for name, weight in after.iloc[0].items())
        assert window.held in page
        assert f"{window.date:%Y-%m-%d}" in page
        kept = book.daily.loc[after.index[: result.config.training.retrain_every], "turnover"]
        assert kept.eq(0.0).all()
    assert f"{len(failed)} of 14 retrainings failed" in page
    # The windows after it are as good as any: they train, and trade again.
    assert result.windows.groupby("strategy")["failed"].last().eq("").all()
    assert book.daily["turnover"].iloc[-5:].gt(0.0).all()
    # Hindsight is bound by the same limits, and the day from which they are out of reach is left out.
    rules = {"risk_aversion": 10.0, "turnover_limit": 0.05, "realised": RollingCovariance(5, ridge=0.0)}
    returns = load_panel(result.config).returns
    regret = decision_regret(book, returns, limits=[BoxLimits(0.0, 0.25)], **rules)["regret"]
    pd.testing.assert_series_equal(result.regrets["Decision-focused"], regret, check_freq=False, check_names=False)
    assert len(regret) == len(book.daily) - 1
    assert result.comparison is not None
    assert ("Decision-focused", "regret") in result.comparison.index
    # The plans obey the limit wherever they could.
    for label in ("Decision-focused", "Two-stage", "Minimum variance"):
        targets = result.ledgers[label].weights[result.ledgers[label].daily["turnover"] > 0]
        assert targets.to_numpy().max() <= 0.25 + 1e-9


@pytest.mark.parametrize("limit", ["null", "[0.1, 0.3]"])
def test_turnover_may_be_limited_stage_by_stage_or_not_at_all(tmp_path: Path, limit: str) -> None:
    result = compare_study(small(tmp_path, f"allocation.turnover_limit={limit}", "training.risk_scaling=true"))
    assert result.failed_windows.empty
    assert result.failures.empty
    first = 2.0 if limit == "null" else 0.1
    for label in ("Decision-focused", "Two-stage", "Minimum variance", "Risk parity", "Perfect foresight (ceiling)"):
        assert result.ledgers[label].daily["turnover"].max() <= first + 1e-8
    assert result.ledgers["Perfect foresight (ceiling)"].daily["turnover"].max() > 0.9 * first
    assert result.windows["turnover_active_share"].notna().any() == (limit != "null")
    assert ("τ none" if limit == "null" else "τ 0.1 then 0.3") in result.report.read_text()


RULES = "backtest.strategies=[equal_weight, buy_and_hold, risk_parity]"


def test_rules_keep_a_largest_weight_but_for_the_one_that_never_trades(tmp_path: Path) -> None:
    limits = ["allocation.max_weight=0.205", "allocation.turnover_limit=null", "evaluation.bootstrap=0"]
    result = run_study(small(tmp_path, RULES, *limits))
    largest = {label: book.weights.to_numpy().max() for label, book in result.ledgers.items()}
    assert largest["Equal weight"] == pytest.approx(0.2)
    assert largest["Risk parity"] == pytest.approx(0.205, abs=1e-8)
    assert largest["Buy and hold"] > 0.205
    note = f"Buy and hold is bound by no limit: its largest weight was {largest['Buy and hold']:.1%}"
    assert note in str(result)
    assert note in result.report.read_text()


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (["allocation.max_weight=0.1"], ConfigError, "allocation.max_weight=0.1 leaves .* raise it to 0.2"),
        (["allocation.max_weight=0.1", RULES], ConfigError, "allocation.max_weight"),
        (["backtest.start=2018-01-10"], ConfigError, "the earliest start is"),
        (["backtest.start=2020-01-10", "backtest.end=2020-02-01"], ConfigError, "no decision date lies between"),
        (["allocation.horizon=300"], ConfigError, "use more data"),
        (["data.source=absent.csv"], DataError, "absent.csv"),
        (["data.tickers=[MTUM, NONE]"], DataError, "NONE"),
        (["data.policies.gap=drop"], DataError, "gap"),
        (["data.start=2035-01-01", "data.end=2036-01-01"], DataError, "20"),
    ],
)
def test_what_cannot_be_studied_is_refused_before_anything_is_written(
    tmp_path: Path, overrides: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run_study(small(tmp_path / "runs", *overrides))
    assert not (tmp_path / "runs").exists()


def test_an_unknown_run_is_refused_naming_those_there_are(done: StudyResult) -> None:
    with pytest.raises(TrackingError, match=done.folder.name):
        resume_study("absent", root=done.config.tracking.folder)


def test_the_span_ends_where_the_last_decision_earns_a_return(tmp_path: Path) -> None:
    config = small(tmp_path, "backtest.end=null", "backtest.lag=1")
    returns = load_panel(config).returns
    span = decision_span(config, returns)
    assert span.last_return == returns.index[-1]
    assert span.dates[-1] == returns.index[-3]


def test_a_run_folder_moves_with_its_files(done: StudyResult, tmp_path: Path) -> None:
    copied = shutil.copytree(done.folder, tmp_path / "copy")
    assert RunFolder.open(copied).prices().equals(RunFolder.open(os.fspath(done.folder)).prices())
