"""The report: complete, self-contained, and drawn without errors at any width."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from skfolio.datasets import load_factors_dataset

from portfolio_dfl.backtest import Ledger, run_ledger
from portfolio_dfl.backtest.costs import cost_levels
from portfolio_dfl.backtest.evaluation import SCORES, performance_table
from portfolio_dfl.errors import TrackingError
from portfolio_dfl.report.differences import differences
from portfolio_dfl.report.page import PageText, report_html, write_report
from portfolio_dfl.report.pictures import write_pictures
from portfolio_dfl.strategies.table import Lane, lanes

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
QUIET += ["--disable-background-networking", "--disable-component-update"]


def ledger(returns: pd.DataFrame, name: str, seed: int) -> Ledger:
    raw = np.random.default_rng(seed).dirichlet(np.ones(returns.shape[1]), len(returns))
    return run_ledger(pd.DataFrame(raw, returns.index, returns.columns), returns, cost_rate=5e-4, name=name)


TEXT = PageText(
    title="quick & short",
    subtitle="five funds",
    lead="It ended.",
    scores_note="",
    comparison_note="",
    config_yaml="name: quick\n",
)


@dataclass(frozen=True)
class Study:
    """What a page reads of a study's result."""

    lanes: Sequence[Lane]
    ledgers: Mapping[str, Ledger]
    metrics: pd.DataFrame
    costs: pd.DataFrame
    scores: pd.DataFrame
    comparison: pd.DataFrame | None
    windows: pd.DataFrame
    failures: pd.DataFrame
    flags: pd.DataFrame
    facts: Mapping[str, str]
    returns: pd.DataFrame | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    periods_per_year: float = 252.0
    risk_free: float = 0.0
    reference: str = "minimum_variance"


def differing(labels: Sequence[str], statistic: str) -> pd.DataFrame:
    rows = pd.MultiIndex.from_product([labels, [statistic]], names=["strategy", "statistic"])
    return pd.DataFrame({"estimate": 0.1, "low": -0.2, "high": 0.4}, index=rows)


@pytest.fixture(scope="module")
def study() -> Study:
    returns = load_factors_dataset().pct_change().loc["2021-06":"2022-06"]
    paths = lanes(["decision_focused", "minimum_variance"], [0])
    books = {lane.label: ledger(returns, lane.label, number) for number, lane in enumerate(paths)}
    dates = returns.index[::20]
    windows = pd.DataFrame(
        {
            "strategy": "decision_focused",
            "seed": 0,
            "window": range(len(dates)),
            "date": dates,
            "failed": ["", "", "diverged <badly>", *[""] * (len(dates) - 3)],
            "train_loss": np.linspace(-0.01, -0.02, len(dates)),
            "mse": np.linspace(1e-4, 2e-4, len(dates)),
        }
    )
    return Study(
        lanes=paths,
        ledgers=books,
        metrics=performance_table(books.values()),
        costs=cost_levels(list(books.values())),
        scores=pd.DataFrame(0.5, index=list(books), columns=list(SCORES)),
        comparison=differing(["Decision-focused"], "sharpe"),
        windows=windows,
        failures=pd.DataFrame({"strategy": ["x"], "date": [dates[3]], "what": ["decide"], "message": ["no portfolio"]}),
        flags=pd.DataFrame({"ticker": ["MTUM"], "date": [dates[0]], "kind": ["stale"], "message": ["five days"]}),
        facts={"data_sha256": "abc"},
        returns=returns,
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


def test_the_page_says_what_happened(study: Study) -> None:
    page = report_html(study, TEXT)
    for expected in (
        "quick &amp; short",
        "It ended.",
        "1 of 14 retrainings failed",
        "diverged &lt;badly&gt;",
        "1 further failure:",
        "five days",
        "name: quick",
        "abc",
        "Max drawdown",
        "10 bp",
    ):
        assert expected in page


def test_the_page_needs_no_network(study: Study) -> None:
    page = report_html(study, TEXT)
    outside_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", outside_scripts)
    assert "<script src" not in page
    assert "@import" not in outside_scripts


def test_synthetic_prices_are_said_to_be_so(study: Study) -> None:
    assert "Synthetic prices" not in report_html(study, TEXT)
    assert "Synthetic prices" in report_html(study, replace(TEXT, synthetic=True))


def test_sections_without_content_are_left_out(study: Study) -> None:
    page = report_html(replace(study, comparison=None, windows=pd.DataFrame(), flags=pd.DataFrame()), TEXT)
    assert "does not tell the two apart" not in page
    assert "How training went" not in page
    assert "Nothing was found wrong" in page


def test_what_is_compared_has_its_words_and_leaves_hindsight_out(study: Study) -> None:
    paths = lanes(["decision_focused", "perfect_foresight"], [0])
    table = pd.concat([differing([lane.label for lane in paths], name) for name in ("utility", "regret")])
    found = dict(differences(replace(study, lanes=paths, comparison=table)))
    assert list(found) == ["utility a year", "regret a decision, where less is better"]
    assert all(list(figure.data[0].y) == ["Decision-focused"] for figure in found.values())


def test_seeds_of_a_strategy_have_names_of_their_own(study: Study) -> None:
    paths = lanes(["two_stage"], [0, 1])
    books = dict(zip((lane.label for lane in paths), study.ledgers.values(), strict=True))
    windows = pd.concat([study.windows.assign(strategy="two_stage", seed=seed) for seed in (0, 1)])
    page = report_html(replace(study, lanes=paths, ledgers=books, windows=windows, comparison=None), TEXT)
    for name in ('"name":"Two-stage, seed 0"', '"name":"Two-stage, seed 1"', "<b>Train loss, Two-stage, seed 1</b>"):
        assert name in page


def test_a_study_without_strategies_has_no_report(study: Study) -> None:
    with pytest.raises(TrackingError, match="no strategy"):
        report_html(replace(study, lanes=[]), TEXT)


def test_writing_needs_a_folder_and_leaves_nothing_partial(study: Study, tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="no folder"):
        write_report(tmp_path / "absent" / "report.html", study, TEXT)
    write_report(tmp_path / "report.html", study, TEXT)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_is_drawn_without_errors_or_overflow(
    study: Study, tmp_path: Path, browser: Browser, width: int
) -> None:
    path = write_report(tmp_path / "report.html", study, TEXT)
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
    drawn = page.evaluate(
        "[...document.querySelectorAll('.plotly-graph-div')].map(p => p.querySelectorAll('.main-svg').length)"
    )
    assert errors == []
    assert len(drawn) == 19
    assert min(drawn) > 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    spilled = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('svg, .scroll')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert spilled == []
    page.close()


@pytest.mark.browser
def test_every_figure_is_a_picture_for_papers(study: Study, tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    pytest.importorskip("kaleido")
    paths = write_pictures(tmp_path / "figures", study)
    assert [path.name for path in paths] == [
        "wealth.png",
        "drawdown.png",
        "months-decision-focused.png",
        "years.png",
        "histogram.png",
        "rolling-sharpe.png",
        "rolling-volatility.png",
        "rolling-beta.png",
        "weights-decision-focused.png",
        "weights-minimum-variance.png",
        "holdings.png",
        "contribution-to-return.png",
        "contribution-to-risk.png",
        "turnover.png",
        "costs.png",
        "difference-in-sharpe-ratio.png",
        "train-loss-decision-focused.png",
        "mse.png",
    ]
    for path in paths:
        header = path.read_bytes()[:24]
        assert header[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(header[16:20]) == 2880
        assert path.stat().st_size > 20_000


def test_pictures_say_what_they_need(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("sys.path_importer_cache", {})
    monkeypatch.delitem(sys.modules, "kaleido", raising=False)
    with pytest.raises(TrackingError, match=r"portfolio-dfl\[figures\]"):
        write_pictures(tmp_path, study)


def test_an_estimator_that_does_not_shrink_has_no_chart_of_it(study: Study) -> None:
    flat = study.windows.assign(shrinkage=0.0)
    assert "Shrinkage" not in report_html(replace(study, windows=flat), TEXT)
    assert "Shrinkage" in report_html(replace(study, windows=flat.assign(shrinkage=0.3)), TEXT)


@pytest.mark.browser
def test_the_page_prints_within_the_paper(study: Study, tmp_path: Path, browser: Browser) -> None:
    path = write_report(tmp_path / "report.html", study, TEXT)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(
        "[...document.querySelectorAll('.js-plotly-plot .main-svg')].every(s => s.getBoundingClientRect().width <= 680)"
    )
    page.close()


def many(assets: int, days: int, *, short: bool) -> Study:
    """A study of made-up assets in groups, with two seeds of one strategy."""
    rng = np.random.default_rng(assets)
    dates, names = pd.bdate_range("2019-01-02", periods=days), [f"A{place:03d}" for place in range(assets)]
    market = rng.normal(4e-4, 0.01, (days, 1))
    returns = pd.DataFrame(market + rng.normal(0.0, 0.01, (days, assets)), dates, names)
    paths = lanes(["decision_focused", "equal_weight"], [0, 1])
    books = {}
    for lane in paths:
        at = dates[::21]
        weights = rng.dirichlet(np.ones(assets), len(at)) if lane.trained else np.full((len(at), assets), 1.0 / assets)
        if short and lane.trained:
            weights = 1.3 * weights - 0.3 * rng.dirichlet(np.ones(assets), len(at))
        books[lane.label] = run_ledger(pd.DataFrame(weights, at, names), returns, cost_rate=5e-4, name=lane.label)
    return Study(
        lanes=paths,
        ledgers=books,
        metrics=performance_table(books.values()),
        costs=cost_levels(list(books.values())),
        scores=pd.DataFrame(0.5, index=list(books), columns=list(SCORES)),
        comparison=differing(["Decision-focused"], "sharpe"),
        windows=pd.DataFrame(),
        failures=pd.DataFrame({"strategy": [], "date": [], "what": [], "message": []}),
        flags=pd.DataFrame(),
        facts={},
        returns=returns,
        groups={name: f"group {place % 11}" for place, name in enumerate(names)},
    )


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a study of many assets, some held short."""
    return write_report(tmp_path_factory.mktemp("crowd") / "report.html", many(500, 200, short=True), TEXT)


@pytest.mark.browser
def test_many_assets_fit_every_width(crowd: Path, browser: Browser) -> None:
    errors: list[str] = []
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(crowd.as_uri())
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
    found = page.evaluate("[...document.querySelectorAll('nav a')].map(a => !!document.querySelector(a.hash))")
    assert len(found) >= 8
    assert all(found)
    page.get_by_role("button", name="log").click()
    assert page.evaluate("document.querySelector('.js-plotly-plot').layout.yaxis.type") == "log"
    for width in (1400, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"document.documentElement.scrollWidth === {width}")
    assert errors == []
    page.close()


def test_of_many_assets_the_largest_are_shown_and_the_page_stays_light(crowd: Path) -> None:
    from plotly.offline import get_plotlyjs

    page = crowd.read_text(encoding="utf-8")
    for expected in ("the other 490", "the ten that were largest", "The same by group."):
        assert expected in page
    assert "<b>Short exposure</b>" in page
    assert len(page) - len(get_plotlyjs()) < 1_500_000


def test_the_benchmark_is_named_and_contributions_need_prices(study: Study) -> None:
    page = report_html(study, TEXT)
    assert "The benchmark is Minimum variance." in page
    assert "Where return and risk came from" in page
    assert "Where return and risk came from" not in report_html(replace(study, returns=None), TEXT)
    assert "No strategy is there to be a benchmark" in report_html(replace(study, reference="risk_parity"), TEXT)
