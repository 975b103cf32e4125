"""Price files as users have them."""

import pandas as pd
import pytest

from portfolio_dfl.data.formats import read_prices_file, ticker_of
from portfolio_dfl.data.panel import build_panel
from portfolio_dfl.errors import DataError

DATES = pd.DatetimeIndex(["2020-01-02", "2020-01-03", "2020-01-06"], name="Date")
CLOSES = pd.DataFrame({"AGG": [1110.25, 1110.5, 1110.75], "SPY": [320.125, 318.5, 319.5]}, index=DATES)


def long_table(frame):
    return frame.rename_axis("date").melt(ignore_index=False, var_name="symbol", value_name="adj_close").reset_index()


WRITERS = {
    "plain.csv": lambda frame, path: frame.to_csv(path),
    "packed.csv.gz": lambda frame, path: frame.to_csv(path),
    "european.csv": lambda frame, path: frame.to_csv(path, sep=";", decimal=",", date_format="%d.%m.%Y"),
    "tabs.tsv": lambda frame, path: frame.to_csv(path, sep="\t"),
    "bars.txt": lambda frame, path: frame.to_csv(path, sep="|"),
    "utf16.csv": lambda frame, path: frame.to_csv(path, encoding="utf-16"),
    "bom.csv": lambda frame, path: frame.to_csv(path, encoding="utf-8-sig"),
    "indexed.parquet": lambda frame, path: frame.to_parquet(path),
    "counted.parquet": lambda frame, path: frame.reset_index().to_parquet(path),
    "counted.csv": lambda frame, path: frame.reset_index().to_csv(path),
    "long.csv": lambda frame, path: long_table(frame).to_csv(path, index=False),
    "long.parquet": lambda frame, path: long_table(frame).to_parquet(path),
    "zoned.csv": lambda frame, path: frame.tz_localize("America/New_York").to_csv(path),
    "zoned.parquet": lambda frame, path: frame.tz_localize("America/New_York").to_parquet(path),
    "two_headers.csv": lambda frame, path: pd.concat(
        {"Close": frame * 2, "Adj Close": frame}, axis=1, names=["Price", "Ticker"]
    ).to_csv(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_layout_gives_the_same_panel(name, tmp_path):
    WRITERS[name](CLOSES, tmp_path / name)
    panel = build_panel(read_prices_file(tmp_path / name))
    pd.testing.assert_frame_equal(panel.prices, CLOSES, check_names=False, check_index_type=False)


def test_european_thousands_and_decimals(tmp_path):
    path = tmp_path / "INDEX.csv"
    path.write_text("Datum;Schlusskurs\n02.01.2020;13.385,93\n03.01.2020;13.219,14\n", encoding="utf-8")
    assert read_prices_file(path)["INDEX"].tolist() == [13385.93, 13219.14]


def test_prices_with_a_currency_sign(tmp_path):
    path = tmp_path / "SPY.csv"
    path.write_text('Date,Close/Last\n01/13/2020,"$1,327.95"\n01/14/2020,$327.45\n', encoding="utf-8")
    assert read_prices_file(path)["SPY"].tolist() == [1327.95, 327.45]


def test_a_file_of_latin_letters_is_read(tmp_path):
    path = tmp_path / "IBOV.csv"
    path.write_bytes("Data;Último\n02.01.2020;1,5\n03.01.2020;1,6\n".encode("cp1252"))
    assert read_prices_file(path)["IBOV"].tolist() == [1.5, 1.6]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "empty"),
        ("blank.csv", b"\n\n", "empty"),
        ("words.csv", b"hello,world\nthis,is no table\n", "no date in the first"),
        ("one.csv", b"Date\n2020-01-02\n", "no separator in the header 'Date': write a comma"),
        ("headless.csv", b"2020-01-02,1,2\n2020-01-03,1,2\n", "no header"),
        ("ragged.csv", b"Date,A\n2020-01-02,1\n" + b"2020-01-03,1\n" * 500 + b"2020-01-03,1,2,3\n", "unequal length"),
        ("bytes.csv", b"\x00\x01\x02", "not a text file"),
        ("broken.parquet", b"PAR1 but not really", "not a readable Parquet"),
        ("broken.csv.gz", b"not gzip", "cannot be unpacked"),
        ("book.xlsx", b"PK", "save the prices as CSV"),
        ("headers.csv", b"A,B\nC,D\nE,F\nDate,G\n2020-01-02,1\n", "header lines"),
    ],
)
def test_what_cannot_be_read_is_a_clear_error(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_prices_file(tmp_path / name)
    assert name in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.csv"):
        read_prices_file(tmp_path / "nowhere.csv")


@pytest.mark.parametrize(
    ("name", "ticker"),
    [("SPY.csv", "SPY"), ("data_TLT_nav.csv", "TLT"), ("BRK-B prices.csv.gz", "B"), ("gold.csv", "gold")],
)
def test_the_only_ticker_is_named_after_the_file(tmp_path, name, ticker):
    assert ticker_of(tmp_path / name) == ticker
