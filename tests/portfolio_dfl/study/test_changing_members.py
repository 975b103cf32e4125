"""Whole studies over members that come and go: what they hold, what their books say, and how they go on."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from pathlib import Path
from typing import Any

import changing_study
import numpy as np
import pandas as pd
import pytest
from changing_study import DATES
from small_study import empty_store

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.local_sources import IN_MEMORY
from portfolio_dfl.errors import ConfigError, DataError
from portfolio_dfl.strategies.walk import WalkTask, take_walk
from portfolio_dfl.study.check import check_study
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.plan import StudyPlan, resolve_plan
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import resume_study, run_study
from portfolio_dfl.study.sweep import run_sweep

OLD, NEW = (f"TWICE@{DATES[place].date()}" for place in (0, 141))
STRATEGIES = ["decision_focused", "equal_weight", "buy_and_hold", "minimum_variance", "perfect_foresight"]
#: Returns that the first decision and its training need: lookback, samples and realised window.
NEEDED = 10 - 1 + 20 + 5


def configured(folder: Path, **sections: Any) -> StudyConfig:
    data = {**changing_study.written(folder), "policies": {"jumps": "accept"}}
    tracking = {"folder": str(empty_store(folder / "runs"))}
    return StudyConfig.of(StudyConfig.of(changing_study.STUDY, data=data, tracking=tracking), **sections)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    folder = tmp_path_factory.mktemp("changing")
    config = configured(folder, backtest={"strategies": STRATEGIES})
    (folder / "study.yaml").write_text(config.to_yaml(), encoding="utf-8")
    return run_study(folder / "study.yaml")


def chosen(study: StudyResult) -> pd.DataFrame:
    assert study.universes is not None
    return study.universes[study.universes["chosen"]]


def test_a_reused_ticker_is_two_assets_and_each_is_held_within_its_time_alone(study: StudyResult) -> None:
    for weights in study.weights.values():
        assert list(weights) == ["KEPT", "MORE", "LOST", "LATE", "LEFT", OLD, NEW]
        for asset, first, last in [
            ("LOST", DATES[0], DATES[160]),  # it is sold, or lost, on the session after its last
            ("LEFT", DATES[0], DATES[151]),
            (OLD, DATES[0], DATES[130]),
            ("LATE", DATES[101], DATES[-1]),
            (NEW, DATES[142], DATES[-1]),
        ]:
            outside = weights[asset].drop(weights.loc[first:last].index)
            assert (outside == 0.0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-9)
    assert (study.weights["Equal weight"] > 0.0).any().all()


def test_the_books_of_equal_weights_are_those_computed_by_hand(study: StudyResult) -> None:
    prices, universes, money = changing_study.prices(), chosen(study), dict[str, float]()
    wealth = []
    for today, tomorrow in pairwise(DATES):
        if not pd.Timestamp("2018-06-01") <= today <= pd.Timestamp("2018-10-31"):
            continue
        since = universes["since"][universes["since"] <= today].max()
        assets = list(universes.loc[universes["since"] == since, "asset"])
        total = sum(money.values()) if money else 1.0
        wanted = dict.fromkeys(assets, total / len(assets))
        if money:  # a study starts from what its first decision wants
            traded = sum(abs(wanted.get(asset, 0.0) - money.get(asset, 0.0)) for asset in {*wanted, *money})
            wanted = {asset: value * (1.0 - 0.0005 * traded / total) for asset, value in wanted.items()}
        money = {}
        for asset, value in wanted.items():
            then, now = prices.loc[[today, tomorrow], asset.partition("@")[0]]
            lost = asset == "LOST" and today == DATES[159]
            money[asset] = 0.0 if lost else value if np.isnan(now) else value * now / then
        wealth.append(sum(money.values()))
    np.testing.assert_allclose(study.ledgers["Equal weight"].daily["wealth"], wealth, rtol=1e-12)


def test_what_is_bought_and_held_is_never_bought_again_and_what_left_goes_into_the_rest(study: StudyResult) -> None:
    book = study.ledgers["Buy and hold"]
    assert (book.weights[["LATE", NEW]] == 0.0).all(axis=None)
    # The rows that open with the close at which one is sold; of what is lost nothing is left to sell.
    assert list(book.daily.index[book.daily["orders"] > 0]) == [DATES[131], DATES[152]]
    assert (book.weights.loc[DATES[161]].drop(["KEPT", "MORE"]) == 0.0).all()


def test_a_universe_is_of_members_with_the_history_that_a_decision_needs(study: StudyResult) -> None:
    assert study.universes is not None
    first = study.universes[study.universes["since"] == study.universes["since"].min()]
    assert set(first.loc[first["chosen"], "asset"]) == {"KEPT", "MORE", "LOST", "LEFT", OLD}
    assert list(first.loc[~first["chosen"], "asset"]) == ["LATE"]
    assert {DATES[130], DATES[151], DATES[160]} <= {*study.universes["since"]}  # the decisions after something left
    entered = chosen(study).groupby("asset")["since"].min()
    assert entered["LATE"] >= DATES[100 + NEEDED]
    assert entered[NEW] >= DATES[141 + NEEDED]


def test_windows_are_trained_on_every_universe(study: StudyResult) -> None:
    assert list(study.windows["date"]) == sorted({*chosen(study)["since"]})
    assert (study.windows["failed"] == "").all()
    assert study.failures.empty
    assert study.windows["mse"].notna().all()
    assert study.scores.loc["Perfect foresight (ceiling)", "regret"] < study.scores.loc["Equal weight", "regret"]
    assert study.frames.contributions("Equal weight")["return"].notna().all()


def test_a_reader_is_told_who_was_chosen_among(study: StudyResult) -> None:
    remark = next(remark for remark in study.remarks if remark.startswith("Members change"))
    assert "of 3 to 5 of 7 assets" in remark
    assert "2 waited for theirs" in remark
    assert "universes of 3 to 5 of 7 assets" in study.report.read_text(encoding="utf-8")


def test_a_study_is_read_and_goes_on_to_the_same_bits_without_its_file_of_members(study: StudyResult) -> None:
    again = load_result(study.folder)
    assert again.universes is not None
    pd.testing.assert_frame_equal(again.universes, study.universes)  # type: ignore[arg-type]
    assert again.remarks == study.remarks
    Path(str(study.config.data.members)).unlink()
    resumed = resume_study(study.folder)
    for label, weights in study.weights.items():
        pd.testing.assert_frame_equal(resumed.weights[label], weights, check_exact=True, check_freq=False)


def test_members_are_given_in_python(tmp_path: Path) -> None:
    given = run_study(
        changing_study.STUDY,
        prices=changing_study.prices(),
        members=changing_study.members(),
        data={"policies": {"jumps": "accept"}},
        backtest={"strategies": ["equal_weight", "minimum_variance"], "rebalance": "weekly", "lag": 1},
        tracking={"folder": str(empty_store(tmp_path / "runs"))},
    )
    assert given.config.data.members == IN_MEMORY
    entered = chosen(given).groupby("asset")["since"].min()
    assert entered["LATE"] < DATES[100 + NEEDED]  # rules alone ask for less history than trainings do
    assert not load_result(given.folder).failures.shape[0]


def planned(folder: Path, **sections: Any) -> StudyPlan:
    rules = {"backtest": {"strategies": ["equal_weight", "minimum_variance"]}}
    return resolve_plan(configured(folder, **{**rules, **sections}))


def test_what_is_said_by_ticker_is_of_those_that_are_there(tmp_path: Path) -> None:
    limits = {
        "max_weight": {"LOST": 0.2, NEW: 0.3, "*": 0.9},
        "groups": {"some": {"tickers": ["LOST", "LEFT"], "max": 0.4}, "gone": {"tickers": [OLD], "max": 0.1}},
    }
    costs = {"rate": {"LOST": 0.002, "*": 0.001}}
    plan = planned(tmp_path, allocation={"horizon": 2, "limits": limits, "repair": "project"}, costs=costs)
    assert plan.changing is not None
    last = plan.changing.settings[plan.changing.universes[-1].assets]
    assert set(last.assets) == {"KEPT", "MORE", "LATE", NEW}
    assert [type(limit).__name__ for limit in last.limits] == ["BoxLimits"]
    assert last.costs.rate == {"*": 0.001}
    assert sum(plan.changing.start) == pytest.approx(1.0)
    assert plan.ledger.costs.rate == {"LOST": 0.002, "*": 0.001}


def test_limits_are_kept_to_and_told_where_they_are_not(tmp_path: Path) -> None:
    result = run_study(
        configured(
            tmp_path,
            allocation={
                "horizon": 2,
                "limits": {"max_weight": {"LOST": 0.15, "*": 0.6}},
                "repair": "project",
                "turnover_limit": None,
            },
            backtest={"strategies": ["equal_weight", "minimum_variance"]},
        )
    )
    told = [remark for remark in result.remarks if "does not keep to" in remark]
    assert len(told) == 1
    assert told[0].startswith("Equal weight does not keep to allocation.limits")
    assert "LOST" in told[0]


@pytest.mark.parametrize(
    ("sections", "error", "told"),
    [
        (
            {"allocation": {"limits": {"groups": {"g": {"tickers": ["LOST"], "min": 0.1}}}}},
            ConfigError,
            r"of the \d members that may be held from 2018-08-21 on: none of the group g is among them",
        ),
        (
            {"allocation": {"limits": {"max_weight": {"LOSS": 0.1}}}},
            ConfigError,
            "LOSS in max_weight .the nearest is LOST",
        ),
        (
            {"allocation": {"limits": {"benchmark": {"ticker": "LOST", "active_share": 0.9}}}},
            ConfigError,
            "from 2018-08-21 on: allocation.limits.benchmark holds LOST",
        ),
        (
            {"allocation": {"max_weight": 0.2}},
            ConfigError,
            "may be held from .* on: allocation.max_weight=0.2 leaves 4",
        ),
        ({"data": {"tickers": ["KEPT", "MORE"]}}, ConfigError, "tickers and members both say"),
        (
            {"training": {"warm_start": True}, "backtest": {}},
            ConfigError,
            "training.warm_start goes on from other assets",
        ),
        ({"data": {"members": "nowhere.csv"}}, DataError, "no file nowhere.csv of members"),
        ({"data": {"members": IN_MEMORY}}, DataError, f"data.members is {IN_MEMORY}: they were given in Python"),
    ],
)
def test_what_cannot_be_done_is_told_before_work_starts(
    sections: dict[str, Any], error: type[Exception], told: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=told):
        planned(tmp_path, **sections)


def test_spreads_are_asked_of_members_and_of_what_is_sold_after_its_last_session(tmp_path: Path) -> None:
    names = ["KEPT", "MORE", "LOST", "LATE", "LEFT", OLD, NEW]
    table = pd.DataFrame(0.001, index=DATES, columns=names)
    table.loc[DATES[160] :, "LOST"] = np.nan  # of which nothing is left to sell
    table.loc[DATES[152] :, "LEFT"] = np.nan
    table.loc[: DATES[99], "LATE"] = np.nan

    def asked(spreads: pd.DataFrame) -> StudyPlan:
        spreads.rename_axis("date").to_csv(tmp_path / "spreads.csv")
        return planned(tmp_path, costs={"spreads": str(tmp_path / "spreads.csv")})

    plan = asked(table)
    walked = take_walk(walk_task(plan, "equal_weight"))
    book = plan.ledger.keep(walked.targets, plan.returns.loc[: plan.span.last_return], start=plan.start)
    assert float(book.daily.loc[DATES[152], "spread_cost"]) > 0.0
    table.loc[DATES[151], "LEFT"] = np.nan
    with pytest.raises(DataError, match=f"the bid-ask spread of LEFT on {DATES[151].date()} is missing"):
        asked(table)


def walk_task(plan: StudyPlan, strategy: str) -> WalkTask:
    lane = next(lane for lane in plan.lanes if lane.strategy == strategy)
    first, last = plan.span.dates[0], plan.span.dates[-1]
    return WalkTask(plan.setting, lane, plan.returns, first, last, plan.retrain_every, changing=plan.changing)


def test_a_learned_forecast_with_features_cash_and_factor_risk_gives_weights_for_tomorrow(tmp_path: Path) -> None:
    prices = changing_study.prices()
    pd.DataFrame({"rate": np.linspace(0.0, 1.0, len(DATES))}, index=DATES).rename_axis("date").to_csv(
        tmp_path / "macro.csv"
    )
    result = run_study(
        configured(
            tmp_path,
            features={
                "momentum": {"builtin": "momentum", "options": {"windows": [5]}},
                "macro": {"source": str(tmp_path / "macro.csv"), "lag": 1},
            },
            forecasting={"lookback": 10, "predictor": "pooled"},
            covariance={"estimator": "factor", "window": 15},
            costs={"cash_rate": 0.02, "rate": {"LOST": 0.002, "*": 0.001}},
            allocation={"horizon": 2, "limits": {"cash": "CASH"}},
            backtest={"strategies": ["decision_focused", "equal_weight"], "rebalance": "weekly"},
        )
    )
    weights = result.weights["Decision-focused"]
    assert result.failures.empty
    # Between two decisions what is left of LEFT becomes cash, and is nobody else's.
    after, before = weights.loc[DATES[152]], weights.loc[DATES[151]]
    assert before["LEFT"] > 0.01
    assert after["CASH"] > before["CASH"] + 0.9 * before["LEFT"]
    advice = advise(result.folder, prices=prices, today=dt.date(2018, 12, 31))
    assert list(advice.target.index) == ["KEPT", "MORE", "LATE", NEW, "CASH"]
    assert advice.target.sum() == pytest.approx(1.0)
    shares = pd.DataFrame({"ticker": ["KEPT", NEW], "shares": [10, 5]})
    held = advise(result.folder, prices=prices, holdings=shares, today=dt.date(2018, 12, 31)).held
    worth = 5 * prices["TWICE"].iloc[-1]
    assert held[NEW] == pytest.approx(worth / (worth + 10 * prices["KEPT"].iloc[-1]))


def test_a_study_is_checked_before_it_is_run(tmp_path: Path) -> None:
    config = configured(tmp_path)
    report = check_study(config)
    assert report.usable
    assert list(report.prices.prices) == ["KEPT", "MORE", "LOST", "LATE", "LEFT", OLD, NEW]
    gone = changing_study.prices()
    gone.loc[DATES[50], "MORE"] = np.nan
    gone.to_csv(tmp_path / "prices.csv")
    assert not check_study(config).usable
    gone = changing_study.prices()
    gone.loc[DATES[159], "LOST"] = np.nan
    gone.to_csv(tmp_path / "prices.csv")
    with pytest.raises(DataError, match=f"line 4, LOST from 2018-01-02, is a member on {DATES[159].date()} and has no"):
        check_study(config)


def test_a_search_over_changing_members_is_refused(tmp_path: Path) -> None:
    config = configured(tmp_path, sweep={"space": {"training.learning_rate": [1e-4, 1e-3]}})
    with pytest.raises(ConfigError, match="a search is over assets that are the same throughout"):
        run_sweep(config)
