"""Tickers are text everywhere, whatever a reader of numbers, truth values, dates or missing values makes of them."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.cli import main
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.formats import read_prices_file
from portfolio_dfl.data.inspection import check_prices
from portfolio_dfl.data.layouts import notes_of, wide_prices
from portfolio_dfl.data.panel import build_panel
from portfolio_dfl.data.snapshot import open_snapshot
from portfolio_dfl.data.sources import FrameSource
from portfolio_dfl.data.store import fetch_snapshot
from portfolio_dfl.errors import ConfigError, DataError
from portfolio_dfl.study.live import read_holdings

ODD = ["000001", "600000", "NA", "NaN", "TRUE", "ON", "1E5", "INF", "null", "20200101", "2020-01-31", "-", "0x1F"]
DATES = pd.bdate_range("2020-01-02", periods=12, name="Date")


def wide(tickers):
    moves = np.random.default_rng(1).normal(0, 0.01, (len(DATES), len(tickers)))
    return pd.DataFrame(100 * np.exp(np.cumsum(moves, axis=0)).round(4), DATES, tickers)


def long(tickers, ticker="ticker"):
    return wide(tickers).melt(var_name=ticker, value_name="close", ignore_index=False).reset_index()


def two_levels(frame):
    return pd.concat({"Volume": frame * 0 + 7, "Close": frame}, axis=1)


WRITERS = {
    "wide.csv": lambda tickers, path: wide(tickers).to_csv(path),
    "wide.parquet": lambda tickers, path: wide(tickers).to_parquet(path),
    "long.csv": lambda tickers, path: long(tickers).to_csv(path, index=False),
    "symbol.csv": lambda tickers, path: long(tickers, "Symbol").to_csv(path, index=False, sep=";", decimal=","),
    "long.parquet": lambda tickers, path: long(tickers).to_parquet(path),
    "counted.csv": lambda tickers, path: long(tickers).to_csv(path),
    "two_headers.csv": lambda tickers, path: two_levels(wide(tickers)).to_csv(path),
    "two_headers.parquet": lambda tickers, path: two_levels(wide(tickers)).to_parquet(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_tickers_that_look_like_data_stay_text_in_every_layout(name, tmp_path):
    WRITERS[name](ODD, tmp_path / name)
    panel = build_panel(read_prices_file(tmp_path / name), calendar=None, tickers=ODD)
    assert panel.tickers == tuple(ODD)
    np.testing.assert_allclose(panel.prices.to_numpy(), wide(ODD).to_numpy())


NAMES = st.from_regex(r"\A[0-9]{1,6}\Z") | st.sampled_from(ODD) | st.from_regex(r"\A[0-9A-Z.-]{1,6}\Z")


@settings(max_examples=12)
@given(tickers=st.lists(NAMES, min_size=2, max_size=4, unique=True))
def test_any_tickers_of_letters_and_digits_come_back_from_a_long_file(tickers, tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "prices.csv"
    long(tickers).to_csv(path, index=False)
    assert build_panel(read_prices_file(path), calendar=None).tickers == tuple(tickers)


def test_a_long_file_of_one_ticker_of_digits_is_read(tmp_path):
    long(["000001"]).to_csv(tmp_path / "one.csv", index=False)
    assert list(read_prices_file(tmp_path / "one.csv")) == ["000001"]


@pytest.mark.parametrize("name", ["CODE", "NAME", "ASSET"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_ticker_that_is_a_word_for_ticker_is_a_ticker_of_a_wide_file(name, whole, tmp_path):
    frame = wide([name, "AGG", "LAST"]).round(0 if whole else 4)
    (frame.astype(int) if whole else frame).to_csv(tmp_path / "prices.csv")
    read = read_prices_file(tmp_path / "prices.csv")
    np.testing.assert_allclose(read[name], frame[name])


@pytest.mark.parametrize("tickers", [["20200101", "20210101"], ["2020-01-31", "2020-02-28"]])
def test_tickers_that_look_like_dates_may_stand_before_the_date_of_a_long_file(tickers, tmp_path):
    long(tickers)[["ticker", "Date", "close"]].to_csv(tmp_path / "prices.csv", index=False)
    assert build_panel(read_prices_file(tmp_path / "prices.csv"), calendar=None).tickers == tuple(tickers)


@pytest.mark.parametrize(("label", "message"), [(np.nan, "lack their ticker"), (True, "truth value")])
def test_a_ticker_of_a_header_of_two_levels_that_was_read_as_data_is_refused(label, message):
    frame = wide(["A", "ON"])
    frame.columns = pd.MultiIndex.from_tuples([("Close", label), ("Close", "ON")])
    with pytest.raises(DataError, match=message):
        FrameSource(frame).load()


def test_one_text_is_no_list_of_tickers():
    with pytest.raises(DataError, match=r"give a list of tickers, as \['NA'\]"):
        build_panel(wide(["NA", "ON"]), tickers="NA")


def test_a_missing_ticker_of_a_long_file_is_refused_and_not_called_na(tmp_path):
    table = long(["NA", "ON"])
    table.loc[3, "ticker"] = ""
    table.to_csv(tmp_path / "prices.csv", index=False)
    with pytest.raises(DataError, match="lack their date or their ticker"):
        read_prices_file(tmp_path / "prices.csv")


@pytest.mark.parametrize(
    ("label", "kind"),
    [(True, "truth value"), (np.nan, "missing"), (1e5, "decimals"), (pd.Timestamp("2020-01-31"), "date")],
)
def test_a_column_whose_name_was_read_as_data_is_refused_with_the_way_out(label, kind):
    frame = wide(["A", "B"]).set_axis(pd.Index([label, "B"], dtype=object), axis=1)
    with pytest.raises(DataError, match=rf"{kind}.*dtype=str and keep_default_na=False"):
        FrameSource(frame).load()


def test_long_frames_whose_tickers_were_read_as_numbers_say_so_or_are_refused():
    table = long(["1", "2"])
    read = wide_prices(table.assign(ticker=table["ticker"].astype(int)))
    assert "zeros before them" in " ".join(notes_of(read))
    with pytest.raises(DataError, match="numbers with decimals"):
        wide_prices(table.assign(ticker=table["ticker"].astype(float)))


def test_a_ticker_with_a_line_break_is_refused():
    with pytest.raises(DataError, match=r"'A\\nB' holds the character '\\n'"):
        build_panel(wide(["A\nB", "C"]), calendar=None)


def test_a_snapshot_keeps_tickers_that_look_like_data(tmp_path):
    wide(ODD).to_csv(tmp_path / "prices.csv")
    fetch_snapshot(str(tmp_path / "prices.csv"), "odd", folder=tmp_path / "snapshots", calendar=None)
    kept = open_snapshot("odd", tmp_path / "snapshots")
    assert list(kept.prices) == ODD
    manifest = json.loads((kept.path / "manifest.json").read_text(encoding="utf-8"))
    assert list(manifest["completeness"]) == ODD
    assert list(check_prices(kept.prices, calendar=None).completeness().index) == ODD


def test_holdings_name_tickers_that_look_like_data(tmp_path):
    file = tmp_path / "held.csv"
    file.write_text("ticker,weight\n" + "".join(f"{ticker},1\n" for ticker in ODD), encoding="utf-8")
    assert read_holdings(file, ODD).to_dict() == pytest.approx(dict.fromkeys(ODD, 1 / len(ODD)))


def test_holdings_in_memory_by_whole_number_are_those_of_the_ticker_of_these_digits():
    assert read_holdings(pd.Series([1.0, 3.0], index=[600000, 600001]), ["600000", "600001"]).tolist() == [0.25, 0.75]


def test_holdings_that_lost_their_leading_zeros_are_told_so() -> None:
    with pytest.raises(DataError, match=r"holdings name 1; .* a spreadsheet may have dropped leading zeros$"):
        read_holdings(pd.Series({"1": 1.0}), ["000001", "600000"])
    with pytest.raises(DataError, match=r"holdings name XYZ; the strategy knows 000001, 600000$"):
        read_holdings(pd.Series({"XYZ": 1.0}), ["000001", "600000"])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("ON", "True, a truth value"),
        ("NO", "False, a truth value"),
        ("000001", "1, a number"),
        ("600000", "600000, a number"),
        ("1.0e+5", "100000.0, a number"),
        ("null", "None, no value"),
        ("2020-01-31", "a date"),
    ],
)
def test_a_ticker_that_yaml_reads_as_data_is_refused_with_a_hint_to_quote_it(written, read):
    with pytest.raises(ConfigError, match=r"data\.tickers\.1: text is needed, not .*quotes") as error:
        StudyConfig.from_yaml(f"data:\n  tickers: [VTI, {written}]\n")
    assert read in str(error.value)


def test_a_name_that_yaml_reads_as_data_has_the_same_hint():
    with pytest.raises(ConfigError, match=r"tracking\.experiment: .* a number to YAML; write it in quotes"):
        StudyConfig.from_yaml("tracking: {experiment: 007}")


def test_quoted_tickers_come_back_from_the_configuration_written_down():
    config = StudyConfig().override([f"data.tickers={json.dumps(ODD)}"])
    assert config.data.tickers == ODD
    for comments in (False, True):
        assert StudyConfig.from_yaml(config.to_yaml(comments=comments)) == config


def test_the_command_line_hints_at_quotes_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["portfolio-dfl", "config", "--set", "data.tickers=[ON, 000001]"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "a truth value to YAML; write it in quotes" in capsys.readouterr().err


def test_the_command_line_takes_tickers_as_text(tmp_path, monkeypatch, capsys):
    long(ODD).to_csv(tmp_path / "prices.csv", index=False)
    words = ["data", "check", str(tmp_path / "prices.csv"), "--tickers", "000001,NA,TRUE", "--calendar", "none"]
    monkeypatch.setattr("sys.argv", ["portfolio-dfl", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code in (0, None)
    assert "3 tickers" in capsys.readouterr().out
