"""Folders of one file a ticker, and sources of the user's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from portfolio_dfl.data.sources import open_source
from portfolio_dfl.errors import DataError

DAYS = pd.bdate_range("2020-01-01", periods=6)


def write(folder: Path, ticker: str, days: pd.DatetimeIndex = DAYS) -> None:
    frame = pd.DataFrame({"Date": days.strftime("%Y-%m-%d"), "Adj Close": range(10, 10 + len(days))})
    frame.to_csv(folder / f"{ticker}.csv", index=False)


def test_every_file_is_the_ticker_that_it_is_named_after(tmp_path: Path) -> None:
    write(tmp_path, "spy")
    write(tmp_path, "BRK.B", DAYS[2:])
    frame = open_source(tmp_path).load()
    assert list(frame.columns) == ["BRK.B", "spy"]
    assert frame["BRK.B"].isna().tolist() == [True, True, False, False, False, False]


def test_a_file_of_several_tickers_is_named(tmp_path: Path) -> None:
    write(tmp_path, "spy")
    pd.DataFrame({"A": range(1, 7), "B": range(2, 8)}, index=DAYS).to_csv(tmp_path / "both.csv")
    with pytest.raises(DataError, match=r"both\.csv holds 2 tickers"):
        open_source(tmp_path).load()


def test_a_source_of_ones_own_is_a_class_or_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import pandas as pd\n\nFRAME = pd.DataFrame({'A': [1.0]})\n\n\ndef frame():\n    return FRAME\n\n\n"
    text += "class Mine:\n    def load(self):\n        return FRAME\n\n\ndef wrong():\n    return 3\n"
    (tmp_path / "own_source.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_source", raising=False)
    for name in ("frame", "Mine"):
        assert list(open_source(f"own_source:{name}").load()) == ["A"]
    with pytest.raises(DataError, match="source 'own_source:wrong' gave a int; a DataFrame"):
        open_source("own_source:wrong").load()
