"""Sources of prices."""

import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.layouts import notes_of
from portfolio_dfl.data.panel import build_panel
from portfolio_dfl.data.snapshot import freeze
from portfolio_dfl.data.sources import (
    EmbeddedSource,
    FileSource,
    FrameSource,
    PriceSource,
    YahooSource,
    open_source,
    yahoo_prices,
)
from portfolio_dfl.errors import DataError

DATES = pd.DatetimeIndex(["2020-01-02", "2020-01-03", "2020-01-06"], name="Date")
CLOSES = pd.DataFrame({"SPY": [320.0, 318.0, 319.5], "AGG": [110.0, 110.5, 110.2]}, index=DATES)


def download(closes):
    """Answer of Yahoo in its usual shape, tickers in alphabetical order."""
    closes = closes.sort_index(axis=1)
    return pd.concat({"Close": closes, "Volume": closes * 0 + 9}, axis=1, names=["Price", "Ticker"])


def test_a_frame_in_memory_gives_the_same_panel_as_the_frame_itself():
    source = FrameSource(CLOSES)
    assert build_panel(source.load()).sha256 == build_panel(CLOSES).sha256
    assert source.load() is not source.frame


def test_a_frame_of_one_ticker_in_either_shape_gives_the_same_panel():
    two_levels = download(CLOSES[["SPY"]])
    one_level = two_levels.droplevel("Ticker", axis=1)
    expected = build_panel(CLOSES[["SPY"]]).sha256
    assert build_panel(FrameSource(two_levels).load()).sha256 == expected
    assert build_panel(FrameSource(one_level, ticker="SPY").load()).sha256 == expected


@pytest.mark.parametrize(
    ("word", "shape"), [("embedded", (2264, 5)), ("skfolio-factors", (2264, 5)), ("skfolio-sp500", (8313, 20))]
)
def test_an_embedded_sample_is_opened_by_name(word, shape):
    source = open_source(word)
    assert isinstance(source, EmbeddedSource)
    assert source.load().shape == shape
    assert source.describe()["source"] == ("skfolio-factors" if word == "embedded" else word)
    assert "skfolio" in source.describe()["library"]


def test_an_unknown_sample_is_named():
    with pytest.raises(DataError, match="skfolio-factors"):
        EmbeddedSource("s&p500")


def test_a_file_is_opened_by_path_and_describes_itself(tmp_path):
    CLOSES.to_csv(tmp_path / "prices.csv")
    source = open_source(tmp_path / "prices.csv")
    assert isinstance(source, FileSource)
    assert build_panel(source.load()).tickers == ("SPY", "AGG")
    assert source.describe() == {"source": "file", "path": str(tmp_path / "prices.csv")}


def test_a_snapshot_is_opened_by_name_version_or_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    version = freeze(CLOSES, "etf", arguments={}).version
    for word in ("etf", f"etf@{version}", f"data/snapshots/etf/{version}"):
        assert open_source(word).name == f"etf@{version}"


def test_all_sources_fulfil_the_protocol():
    sources = (EmbeddedSource(), FileSource("x.csv"), FrameSource(CLOSES), YahooSource(("SPY",), "2020-01-01"))
    assert all(isinstance(source, PriceSource) for source in sources)


@pytest.mark.parametrize("word", ["nowhere.csv", "yaho"])
def test_an_unknown_source_is_named_with_what_there_is(word):
    with pytest.raises(DataError, match=f"{word}.*embedded, yahoo, or the path"):
        open_source(word)


def test_a_folder_of_price_files_is_the_table_that_they_make(tmp_path):
    paths = [tmp_path / "prices" / f"{ticker}.csv" for ticker in CLOSES]
    paths[0].parent.mkdir()
    for path in paths:
        CLOSES[[path.stem]].set_axis(["Adj Close"], axis=1).to_csv(path)
    found = open_source(tmp_path / "prices").load()
    assert sorted(found) == sorted(CLOSES)
    assert len(found) == len(CLOSES)


def test_a_folder_of_snapshots_is_called_that_and_names_one(tmp_path):
    freeze(CLOSES, "etf", folder=tmp_path, arguments={})
    with pytest.raises(DataError, match=r"folder of snapshots: name one of them, as .*etf"):
        open_source(tmp_path)


def test_another_folder_is_called_no_snapshot(tmp_path):
    (tmp_path / "notes.pdf").touch()
    with pytest.raises(DataError, match="is a folder and no snapshot: name a CSV or Parquet file"):
        open_source(tmp_path)


def test_a_folder_of_the_name_of_a_snapshot_does_not_hide_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    freeze(CLOSES, "etf", arguments={})
    (tmp_path / "etf").mkdir()
    assert open_source("etf").name.startswith("etf@")


def test_yahoo_needs_tickers_and_a_start():
    with pytest.raises(DataError, match="tickers and a start"):
        open_source("yahoo")
    source = open_source("yahoo", tickers=["spy"], start="2020-01-01")
    assert isinstance(source, YahooSource)
    assert source.tickers == ("SPY",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tickers": ()}, "needs tickers"),
        ({"tickers": ("SPY", "spy")}, "named twice"),
        ({"start": "2021-01-01", "end": "2020-01-01"}, "lies after"),
        ({"start": None}, "needs a start"),
        ({"batch": 0}, "positive"),
    ],
)
def test_a_question_that_makes_no_sense_is_not_asked(arguments, message):
    with pytest.raises(DataError, match=message):
        YahooSource(**{"tickers": ("SPY",), "start": "2020-01-01", **arguments})


def test_the_end_date_asked_of_yahoo_is_one_later_because_the_library_leaves_it_out():
    request = YahooSource(("SPY",), "2020-01-01", "2020-12-31").request(["SPY"])
    assert request["end"] == "2021-01-01"
    assert request["auto_adjust"] is True
    assert request["multi_level_index"] is True


def test_an_answer_of_several_tickers_keeps_the_order_asked_for():
    pd.testing.assert_frame_equal(yahoo_prices(download(CLOSES), ["SPY", "AGG"]), CLOSES, check_names=False)


def test_adjusted_closes_are_read_from_the_field_that_holds_them():
    answer = pd.concat({"Close": CLOSES * 1.25, "Adj Close": CLOSES}, axis=1)
    read = yahoo_prices(answer, ["SPY", "AGG"], auto_adjust=False)
    pd.testing.assert_frame_equal(read, CLOSES, check_names=False)
    assert notes_of(read) == []
    assert notes_of(yahoo_prices(download(CLOSES), ["SPY", "AGG"])) == []


@pytest.mark.parametrize("answer", [None, pd.DataFrame(), download(CLOSES).iloc[:0]])
def test_an_empty_answer_is_an_error_that_names_the_tickers(answer):
    with pytest.raises(DataError, match="no prices for SPY, AGG"):
        yahoo_prices(answer, ["SPY", "AGG"])


def test_an_all_nan_ticker_is_an_error_that_names_it():
    with pytest.raises(DataError, match="no prices for AGG:"):
        yahoo_prices(download(CLOSES.assign(AGG=np.nan)), ["SPY", "AGG"])


@pytest.mark.parametrize(
    ("complaint", "message"),
    [
        ("Failed to perform, curl: (6) Could not resolve host", "could not be reached for SPY"),
        ("YFRateLimitError('Too Many Requests')", "too many requests"),
        ("$SPY: possibly delisted; no price data found", "check the symbols"),
    ],
)
def test_the_cause_of_an_empty_answer_is_told_apart(complaint, message):
    with pytest.raises(DataError, match=message):
        yahoo_prices(pd.DataFrame(), ["SPY"], [complaint])


def test_offline_the_download_fails_within_seconds_with_advice_and_writes_nothing(tmp_path):
    code = (
        "from portfolio_dfl.data.store import fetch_snapshot\n"
        "from portfolio_dfl.errors import DataError\n"
        "try:\n"
        "    fetch_snapshot('yahoo', 'etf', folder='snapshots', tickers=['SPY', 'AGG'], start='2020-01-01')\n"
        "except DataError as error:\n"
        "    print(error)\n"
        "    raise SystemExit(2)\n"
    )
    # A proxy that nobody listens at: offline on any machine.
    proxy = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"), "http://127.0.0.1:9")
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, **proxy, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert time.monotonic() - start < 15
    assert done.returncode == 2, done.stderr
    assert "Yahoo could not be reached for SPY, AGG" in done.stdout
    assert "embedded" in done.stdout
    assert not (tmp_path / "snapshots").exists()
