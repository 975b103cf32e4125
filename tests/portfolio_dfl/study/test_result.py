"""What a finished study says of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from lxml import html
from small_study import small

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import BacktestError, TrackingError
from portfolio_dfl.study.page import page_text
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import run_study


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    """Of a strategy that never trades, under a limit that its weights stay below by far."""
    folder: Path = tmp_path_factory.mktemp("runs")
    rules = "backtest.strategies=[equal_weight, buy_and_hold]"
    return run_study(small(folder, rules, "allocation.max_weight=0.9", "evaluation.bootstrap=0"))


def test_a_largest_weight_that_holding_stays_below_is_not_remarked_upon(held: StudyResult) -> None:
    assert held.limits_note == ""
    for text in (str(held), held.report.read_text()):
        assert "bound by no limit" not in text


def test_a_largest_weight_that_holding_drifts_beyond_is(held: StudyResult) -> None:
    tight = replace(held, config=held.config.override(["allocation.max_weight=0.2"]))
    assert "Buy and hold is bound by no limit: its largest weight was 2" in tight.limits_note
    assert tight.limits_note in str(tight)


def prices_of(dates: pd.DatetimeIndex, folder: Path) -> Path:
    """A file of three random walks on these dates."""
    steps = np.random.default_rng(0).normal(0.001, 0.02, (len(dates), 3))
    file = folder / "prices.csv"
    pd.DataFrame(100.0 * np.exp(steps.cumsum(axis=0)), dates, ["A", "B", "C"]).rename_axis("Date").to_csv(file)
    return file


def rules_on(dates: pd.DatetimeIndex, folder: Path, *overrides: str) -> StudyResult:
    """A study without training on prices of these dates."""
    own = StudyConfig.parse({"name": "rhythm", "data": {"source": str(prices_of(dates, folder)), "calendar": None}})
    rules = "backtest.strategies=[equal_weight, buy_and_hold]"
    quick = ["evaluation.reference=equal_weight", "evaluation.bootstrap=100", f"tracking.folder={folder / 'runs'}"]
    return run_study(own.override([rules, *quick, *overrides]))


@pytest.fixture(scope="module")
def daily(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    """Of seven days a week."""
    return rules_on(pd.date_range("2022-01-01", periods=200), tmp_path_factory.mktemp("daily"))


def test_seven_days_a_week_are_a_year_of_365_in_every_number_and_text(daily: StudyResult) -> None:
    book = daily.ledgers["Equal weight"]
    years = len(book.daily) / 365
    assert daily.metrics.loc["Equal weight", "cagr"] == pytest.approx(book.daily["wealth"].iloc[-1] ** (1 / years) - 1)
    assert daily.periods_per_year == 365.0
    assert "annualised by 365 rows a year" in str(daily)
    assert "annualised by 365 rows a year" in daily._repr_html_()
    page = daily.report.read_text(encoding="utf-8")
    assert "annualised by 365 rows a year" in page
    assert "<dt>periods_per_year</dt><dd>365</dd>" in page
    assert "averaged over the past 30 days" in page
    assert load_result(daily.folder).periods_per_year == 365.0


def test_rows_a_year_can_be_set(daily: StudyResult, tmp_path: Path) -> None:
    dates = pd.date_range("2022-01-01", periods=200)
    own = rules_on(dates, tmp_path, "evaluation.periods_per_year=252")
    assert own.periods_per_year == 252.0
    for column, power in (("volatility", 0.5), ("sharpe", 0.5), ("cost", 1.0), ("utility", 1.0)):
        expected = daily.metrics[column] * (252 / 365) ** power
        np.testing.assert_allclose(own.metrics[column], expected, rtol=1e-9)
    np.testing.assert_allclose(own.costs["volatility"], daily.costs["volatility"] * (252 / 365) ** 0.5)
    assert own.comparison is not None
    assert daily.comparison is not None
    sharpe = own.comparison.xs("sharpe", level="statistic")["estimate"]
    np.testing.assert_allclose(
        sharpe, daily.comparison.xs("sharpe", level="statistic")["estimate"] * (252 / 365) ** 0.5
    )
    # Sharpe ratios a row, which deflation works with, do not depend on it.
    np.testing.assert_allclose(own.scores["deflated_sharpe"], daily.scores["deflated_sharpe"], rtol=1e-9)


def test_a_rhythm_that_is_not_known_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    dates = pd.date_range("2000-01-01", periods=200, freq="15D")
    with pytest.raises(BacktestError, match=r"evaluation\.periods_per_year"):
        rules_on(dates, tmp_path)
    assert not (tmp_path / "runs" / "rhythm").exists()
    assert rules_on(dates, tmp_path, "evaluation.periods_per_year=24.35").periods_per_year == 24.35


def headings(page: str) -> list[str]:
    """Texts of the heading cells of the table of metrics, as a reader of HTML without a style sheet has them."""
    document = html.fromstring(page)
    table = next(each for each in document.iter("table") if "CAGR" in each.text_content())
    return [cell.text_content() for cell in table.iter("th")]


def test_every_heading_stands_once_in_a_notebook_and_on_the_page(held: StudyResult) -> None:
    expected = ["Strategy", "CAGR", "Volatility", "Sharpe", "Max drawdown", "Turnover", "Cost"]
    assert headings(held._repr_html_()) == expected
    assert headings(held.report.read_text(encoding="utf-8")) == expected


def test_a_path_is_no_markup_in_a_notebook(held: StudyResult) -> None:
    odd = replace(held, report=Path("a<b>/report.html"))
    assert html.fromstring(f"<div>{odd._repr_html_()}</div>").find(".//p").text_content().endswith("a<b>/report.html")


def test_failed_decisions_are_told_wherever_the_result_is_shown(held: StudyResult) -> None:
    days = held.covariances.index
    failures = pd.DataFrame(
        {
            "date": [days[4], days[6], pd.NaT],
            "what": ["decide", "decide", "regret"],
            "message": ["beyond the <limit>", "beyond it again", "no hindsight"],
            "held": "",
            "strategy": ["Buy and hold", "Buy and hold", "Equal weight"],
        }
    )
    odd = replace(held, failures=failures)
    for text in (str(odd), html.fromstring(odd._repr_html_()).text_content(), page_text(odd).lead):
        assert f"2 of {len(days)} decisions of Buy and hold failed and held what was held" in text
        assert f"{days[4]:%Y-%m-%d}: beyond the <limit>" in text
        assert "The regret of Equal weight could not be computed: no hindsight" in text


def test_failed_retrainings_and_made_up_prices_are_told_too(held: StudyResult) -> None:
    windows = pd.DataFrame({"failed": ["", "diverged"], "strategy": "decision_focused"})
    odd = replace(held, windows=windows, config=held.config.override(["data.source=synthetic://iid"]))
    for text in (str(odd), odd._repr_html_()):
        assert "1 of 2 retrainings failed" in text
        assert "Synthetic prices" in text


def test_figures_and_frames_are_found_by_name(daily: StudyResult) -> None:
    shown, framed = set(dir(daily.plot)), set(dir(daily.frames))
    assert {"wealth", "drawdown", "months", "rolling", "weights", "risk_contributions"} <= shown
    assert {"metrics", "tear_sheet", "months", "drawdowns", "contributions", "net_returns", "weights"} <= framed
    assert [trace.name for trace in daily.plot.wealth().data] == list(daily.ledgers)
    for name in sorted(framed):
        if not name.startswith("_"):
            assert isinstance(daily.to_frame(name), pd.DataFrame)
    assert daily.to_frame().equals(daily.metrics)
    with pytest.raises(TrackingError, match=r"no frame is named 'prices'; there are .*wealth"):
        daily.to_frame("prices")
    with pytest.raises(TrackingError, match="no strategy is labelled 'Other'; there are Equal weight, Buy and hold"):
        daily.plot.months("Other")


def test_contributions_are_those_of_the_run_s_own_prices(daily: StudyResult) -> None:
    table = daily.frames.contributions("Buy and hold")
    gross = daily.ledgers["Buy and hold"].daily["gross_return"].to_numpy()
    assert table["return"].sum() == pytest.approx(np.prod(1.0 + gross) - 1.0, abs=1e-12)
    assert table["risk"].sum() == pytest.approx(np.sqrt(365) * gross.std(ddof=1), abs=1e-12)
    gone = replace(daily, folder=daily.folder / "absent")
    assert gone.returns is None
    with pytest.raises(TrackingError, match="prices of this study are gone"):
        gone.plot.return_contributions()


def test_groups_are_those_of_the_limits(daily: StudyResult) -> None:
    assert daily.groups == {}
    grouped = replace(daily, config=daily.config.override(["allocation.limits.group_of={A: first, B: first, C: last}"]))
    assert grouped.groups == {"A": "first", "B": "first", "C": "last"}
    assert {trace.name for trace in grouped.plot.groups().data} == {"first", "last"}


def test_every_failed_retraining_is_told_where_there_are_several(daily: StudyResult) -> None:
    dates = pd.date_range("2022-03-01", periods=8)
    windows = pd.DataFrame({"strategy": "two_stage", "seed": 1, "date": dates, "failed": "diverged"})
    several = replace(daily, windows=windows)
    assert "8 of 8 retrainings failed: two_stage on 2022-03-01 (seed 1), " in str(several)
    assert "2022-03-05 (seed 1) and 3 more." in str(several)
    assert "1 of 8 retrainings failed." in str(replace(daily, windows=windows.assign(failed=["x", *[""] * 7])))


def test_a_notebook_shows_the_table_once(daily: StudyResult) -> None:
    assert daily._repr_html_().count("<table>") == 1
