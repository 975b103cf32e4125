"""Fetching, listing and showing snapshots."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.sessions import sessions_between
from portfolio_dfl.data.snapshot import open_snapshot
from portfolio_dfl.data.sources import FileSource, FrameSource
from portfolio_dfl.data.store import fetch_snapshot, list_snapshots, show_snapshot
from portfolio_dfl.errors import DataError


@pytest.fixture
def frame():
    dates = sessions_between("XNYS", pd.Timestamp("2022-01-03"), pd.Timestamp("2022-06-30")).rename("Date")
    noise = np.random.default_rng(0).normal(0.0, 0.01, (len(dates), 2))
    return pd.DataFrame(100 * np.exp(np.cumsum(noise, axis=0)), index=dates, columns=["AGG", "SPY"])


def test_a_fetched_source_becomes_a_snapshot_with_its_findings(tmp_path, frame):
    frame.iloc[7, 0] = np.nan
    result = fetch_snapshot(FrameSource(frame, name="mine"), "etf", folder=tmp_path)
    assert result.current
    assert result.comparison is None
    assert not result.check.usable
    assert result.snapshot.manifest["findings"] == {"gap": 1}
    assert result.snapshot.manifest["completeness"]["AGG"]["missing_inside"] == 1
    pd.testing.assert_frame_equal(open_snapshot("etf", tmp_path).prices, frame, check_freq=False)
    assert "AGG 2022-01-12" in str(result)


def test_the_embedded_sample_is_fetched_by_name_and_cut_to_the_range(tmp_path):
    result = fetch_snapshot(
        "embedded", "factors", folder=tmp_path, tickers=["USMV", "MTUM"], start="2020-01-01", end="2020-12-31"
    )
    assert list(result.snapshot.prices.columns) == ["USMV", "MTUM"]
    assert result.snapshot.manifest["last"] == "2020-12-31"
    assert result.snapshot.manifest["arguments"]["tickers"] == "USMV MTUM"


def test_fetching_again_within_tolerance_changes_nothing(tmp_path, frame):
    first = fetch_snapshot(FrameSource(frame), "etf", folder=tmp_path)
    again = fetch_snapshot(FrameSource(frame * 0.99 * (1 + 1e-6 * np.sin(np.arange(2)))), "etf", folder=tmp_path)
    assert again.snapshot.version == first.snapshot.version
    assert "nothing changed beyond drift" in str(again)


def test_more_dates_make_a_new_version_current(tmp_path, frame):
    fetch_snapshot(FrameSource(frame.iloc[:-10]), "etf", folder=tmp_path)
    result = fetch_snapshot(FrameSource(frame), "etf", folder=tmp_path)
    assert result.current
    assert open_snapshot("etf", tmp_path).sha256 == result.snapshot.sha256
    assert "10 new dates" in str(result)


def test_a_rewritten_history_becomes_current_only_if_accepted(tmp_path, frame):
    first = fetch_snapshot(FrameSource(frame), "etf", folder=tmp_path)
    rewritten = frame.copy()
    rewritten.iloc[50:, 0] *= 1.003
    result = fetch_snapshot(FrameSource(rewritten), "etf", folder=tmp_path)
    assert not result.current
    assert f"AGG {frame.index[50]:%Y-%m-%d}" in str(result)
    assert open_snapshot("etf", tmp_path).version == first.snapshot.version
    accepted = fetch_snapshot(FrameSource(rewritten), "etf", folder=tmp_path, accept_changes=True)
    assert accepted.current
    assert open_snapshot("etf", tmp_path).sha256 == accepted.snapshot.sha256


def test_conflicting_rows_are_not_frozen(tmp_path, frame):
    with pytest.raises(DataError, match="two different prices"):
        fetch_snapshot(FrameSource(pd.concat([frame, frame.iloc[[-1]] + 1])), "etf", folder=tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_cells_that_are_no_prices_are_not_frozen(tmp_path, frame):
    texts = frame.astype(object)
    texts.iloc[3, 1] = "0.4%"
    with pytest.raises(DataError, match=r"SPY 2022-01-06.*percentage"):
        fetch_snapshot(FrameSource(texts), "etf", folder=tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_snapshots_are_listed_and_an_empty_folder_says_how_to_make_one(tmp_path, frame):
    assert "data fetch" in list_snapshots(tmp_path).text()
    for name in ("one", "two"):
        fetch_snapshot(FrameSource(frame), name, folder=tmp_path)
    listed = list_snapshots(tmp_path)
    assert listed.to_frame()["name"].tolist() == ["one", "two"]
    assert "2022-06-30" in str(listed)


def test_a_file_and_its_snapshot_hold_the_same_prices(tmp_path, frame):
    frame.to_csv(tmp_path / "prices.csv")
    result = fetch_snapshot(FileSource(tmp_path / "prices.csv"), "etf", folder=tmp_path / "snapshots")
    pd.testing.assert_frame_equal(result.snapshot.prices, frame, check_freq=False)
    assert json.loads((result.snapshot.path / "manifest.json").read_text())["arguments"]["source"] == "file"


def test_the_page_of_a_snapshot_is_self_contained_and_names_the_findings(tmp_path, frame):
    frame.iloc[60:, 0] /= 4.0
    frame.iloc[7, 1] = np.nan
    fetch_snapshot(FrameSource(frame, name="<mine>"), "etf", folder=tmp_path)
    page = show_snapshot("etf", folder=tmp_path)
    text = page.read_text(encoding="utf-8")
    assert page.parent == tmp_path
    assert "split_suspect" in text
    assert "SPY 2022-01-12" in text
    assert "&lt;mine&gt;" in text
    assert 'src="http' not in text
    assert list(tmp_path.glob(".*.partial")) == []


def test_a_page_is_shown_for_a_file_without_any_price(tmp_path):
    (tmp_path / "NONE.csv").write_text("Date,Close\n2022-01-03,\n2022-01-04,\n")
    page = show_snapshot(tmp_path / "NONE.csv", output=tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    assert "NONE: " not in page.read_text(encoding="utf-8")[:100]
    assert "no price at all" in page.read_text(encoding="utf-8")


def test_a_page_of_nothing_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no price source 'nothing'"):
        show_snapshot("nothing", folder=tmp_path)


@pytest.mark.browser
def test_the_page_opens_without_script_errors_and_without_network(tmp_path, frame):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    frame.iloc[7, 1] = np.nan
    fetch_snapshot(FrameSource(frame), "etf", folder=tmp_path)
    page_path = show_snapshot("etf", folder=tmp_path)
    errors, requests = [], []
    with playwright.sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-background-networking", "--enable-unsafe-swiftshader"],
        )
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(page_path.as_uri())
        page.wait_for_selector(".js-plotly-plot .main-svg")
        assert page.locator(".js-plotly-plot").count() == 3
        assert page.locator("text=SPY 2022-01-12").count() >= 1
        browser.close()
    assert errors == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)


@pytest.mark.parametrize("word", ["embedded", "yahoo", "skfolio-factors"])
def test_a_snapshot_cannot_have_the_name_of_a_source(word, tmp_path):
    with pytest.raises(DataError, match=f"{word} names a source"):
        fetch_snapshot("embedded", word, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
