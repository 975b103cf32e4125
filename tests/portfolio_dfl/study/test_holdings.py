"""What is held: weights, money or shares, with cash beside them and short positions where they are allowed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from portfolio_dfl.errors import DataError
from portfolio_dfl.study.holdings import parse_holdings

TICKERS = ["A", "B", "C"]
PRICES = pd.Series([10.0, 20.0, 50.0], TICKERS)


def write(folder: Path, text: str) -> Path:
    file = folder / "held.csv"
    file.write_text(text)
    return file


def test_shares_are_worth_their_prices_and_cash_is_money(tmp_path: Path) -> None:
    held = parse_holdings(write(tmp_path, "ticker,shares\nA,30\nC,10\ncash,200\n"), TICKERS, prices=PRICES)
    assert held.wealth == 1000.0
    assert held.weights.to_list() == [0.3, 0.0, 0.5]
    assert held.cash == 0.2
    assert held.shares is not None
    assert held.shares.to_list() == [30.0, 0.0, 10.0]


def test_values_tell_the_wealth_and_weights_do_not(tmp_path: Path) -> None:
    values = parse_holdings(write(tmp_path, "ticker,value\nA,300\nB,500\nCash,200\n"), TICKERS)
    assert (values.wealth, values.cash) == (1000.0, 0.2)
    assert parse_holdings(write(tmp_path, "ticker,weight\nA,3\nB,1\n"), TICKERS).wealth is None


def test_a_frame_is_read_as_a_file_is() -> None:
    frame = pd.DataFrame({"shares": [30, 10]}, index=["A", "C"])
    expected = parse_holdings(frame.rename_axis("ticker").reset_index(), TICKERS, prices=PRICES)
    assert parse_holdings(frame, TICKERS, prices=PRICES).weights.equals(expected.weights)


def test_short_positions_are_held_where_they_are_allowed(tmp_path: Path) -> None:
    file = write(tmp_path, "ticker,shares\nA,-20\nB,30\nC,12\n")
    held = parse_holdings(file, TICKERS, prices=PRICES, short=["A"])
    assert held.weights.to_list() == [-0.2, 0.6, 0.6]
    with pytest.raises(DataError, match="short of A"):
        parse_holdings(file, TICKERS, prices=PRICES, short=["B"])
    with pytest.raises(DataError, match="long only"):
        parse_holdings(file, TICKERS, prices=PRICES)


def test_cash_of_a_strategy_that_has_cash_is_that_asset(tmp_path: Path) -> None:
    file = write(tmp_path, "ticker,shares\nA,30\ncash,700\n")
    held = parse_holdings(file, TICKERS, prices=PRICES, cash="C")
    assert held.weights.to_list() == [0.3, 0.0, 0.7]
    assert held.cash == 0.0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ticker,shares,value\nA,1,1\n", "both value and shares"),
        ("ticker,number\nA,1\n", r"weight \(or value, or shares\) are needed"),
        ("ticker,shares\nA,10\ncash,-200\n", "more than their debts"),
        ("ticker,shares\nD,1\n", "holdings name D"),
        ("ticker,shares\nA,many\n", "line 2: A many"),
    ],
)
def test_holdings_that_cannot_be_read_are_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(DataError, match=what):
        parse_holdings(write(tmp_path, text), TICKERS, prices=PRICES)


def test_shares_without_prices_are_refused() -> None:
    with pytest.raises(DataError, match="need prices"):
        parse_holdings(pd.DataFrame({"ticker": ["A"], "shares": [1]}), TICKERS)
