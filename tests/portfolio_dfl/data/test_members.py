"""The file of members: what is read, how securities are named, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from portfolio_dfl.data.members import read_members, rows_to_spells, spell_rows
from portfolio_dfl.errors import DataError


def written(folder: Path, *lines: str, header: str = "ticker,from,to,delisting_return,column") -> Path:
    file = folder / "members.csv"
    file.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return file


def test_a_spell_has_its_dates_and_what_a_delisting_returned(tmp_path: Path) -> None:
    spells = read_members(written(tmp_path, "AAA,2020-01-02,,,", "", "NA,2020-02-03,2021-03-04,-1,"))
    assert [spell.asset for spell in spells] == ["AAA", "NA"]
    assert spells[0].last is None
    assert spells[0].delisting_return is None
    assert (spells[1].first, spells[1].last) == (pd.Timestamp("2020-02-03"), pd.Timestamp("2021-03-04"))
    assert spells[1].delisting_return == -1.0
    assert spells[1].line == 4


def test_what_is_optional_may_be_left_out_and_other_columns_are_not_looked_at(tmp_path: Path) -> None:
    spells = read_members(written(tmp_path, "AAA,2020-01-02,,Energy", header="ticker,from,to,sector"))
    assert spells[0].asset == "AAA"


def test_a_reused_ticker_is_a_security_a_spell(tmp_path: Path) -> None:
    spells = read_members(written(tmp_path, "AAA,2020-01-02,2020-06-30,,", "AAA,2021-01-04,,,"))
    assert [spell.asset for spell in spells] == ["AAA@2020-01-02", "AAA@2021-01-04"]


def test_a_column_makes_spells_one_security_and_tells_reused_tickers_apart(tmp_path: Path) -> None:
    lines = ("AAA,2020-01-02,2020-06-30,,AAA", "AAA,2021-01-04,2021-06-30,,AAA", "AAA,2022-01-03,,,AAA_NEW")
    assert [spell.asset for spell in read_members(written(tmp_path, *lines))] == ["AAA", "AAA", "AAA_NEW"]


def test_spells_are_written_and_read_back_the_same(tmp_path: Path) -> None:
    lines = ("AAA,2020-01-02,2020-06-30,-0.25,", "AAA,2021-01-04,,,", "CCC,2020-01-02,,,C-C")
    spells = read_members(written(tmp_path, *lines))
    assert rows_to_spells(spell_rows(spells)) == spells
    assert rows_to_spells(spell_rows(spells[1:])) == spells[1:]  # a reused ticker keeps the name that tells it apart


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("AAA,2020-13-01,,,",), "line 2: from of AAA, '2020-13-01', is no date"),
        (("AAA,2020-01-02,02/01/2021,,",), "line 2: to of AAA, '02/01/2021', is no date"),
        (("AAA,,,,",), "line 2: AAA has no date from"),
        ((",2020-01-02,,,",), "line 2: no ticker"),
        (("AAA,2020-01-02,2019-12-31,,",), "line 2: AAA is a member from 2020-01-02 to 2019-12-31"),
        (("AAA,2020-01-02,,-0.5,",), "line 2: AAA has a delisting return of -0.5 and no date to"),
        (("AAA,2020-01-02,2020-02-03,-1.5,",), "line 2: delisting_return of AAA is -1.5"),
        (("AAA,2020-01-02,2020-02-03,half,",), "line 2: delisting_return of AAA, 'half', is no number"),
        (
            ("AAA,2020-01-02,2020-06-30,,", "BBB,2020-01-02,,,", "AAA,2020-06-30,,,"),
            "line 4, AAA from 2020-06-30 (included) overlaps line 2, AAA from 2020-01-02, to 2020-06-30",
        ),
        (("AAA,2020-01-02,,,", "AAA,2021-01-04,,,"), "overlaps line 2, AAA from 2020-01-02, which has no end"),
        (("AAA,2020-01-02,,,X", "BBB,2020-06-30,,,X"), "line 3, BBB from 2020-06-30 (included) overlaps line 2"),
        (("AAA,2020-01-02,2020-06-30,,", "BBB,2021-01-04,,,AAA"), "the column AAA, which line 3"),
        (("AAA,2020-01-02,2020-06-30,-1,AAA", "AAA,2021-01-04,,,AAA"), "line 2, AAA from 2020-01-02 has a delisting"),
        ((), "names no member"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_line_ticker_and_date(
    lines: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as refused:
        read_members(written(tmp_path, *lines))
    assert told in str(refused.value)
    assert "members.csv" in str(refused.value)


def test_a_missing_column_and_a_slip_of_the_pen_in_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no column to; it has ticker, from"):
        read_members(written(tmp_path, "AAA,2020-01-02", header="ticker,from"))
    with pytest.raises(DataError, match="did you mean delisting_return"):
        read_members(written(tmp_path, "AAA,2020-01-02,,", header="ticker,from,to,delisting_retrun"))
    with pytest.raises(DataError, match=r"no file .*nowhere.csv of members"):
        read_members(tmp_path / "nowhere.csv")
