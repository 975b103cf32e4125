"""Live decisions: the registered model's are the backtest's up to rounding; what does not fit is named."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from small_study import small

from portfolio_dfl.cli import main
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.errors import DataError, TrackingError
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.live import advise, read_holdings
from portfolio_dfl.study.result import StudyResult
from portfolio_dfl.study.run import run_study
from portfolio_dfl.tracking.mlflow_store import open_store

TICKERS = ["MTUM", "QUAL", "SIZE", "USMV", "VLUE"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    only = "backtest.strategies=[decision_focused]"
    return run_study(small(tmp_path_factory.mktemp("live"), only, "tracking.register_as=decisions"))


def test_the_registered_model_repeats_every_decision_after_its_training(
    done: StudyResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow.pyfunc

    root = done.config.tracking.folder
    monkeypatch.setenv("MLFLOW_TRACKING_URI", open_store(root, experiment="small").uri)
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", open_store(root, experiment="small").uri)
    model = mlflow.pyfunc.load_model("models:/decisions/1")
    book, prices = done.ledgers["Decision-focused"], RunFolder.open(done.folder).prices()
    last_training = done.windows["date"].max()
    days = [day for day in book.weights.index if day > last_training]
    assert len(days) >= 4
    for day in days:
        held = book.weights.loc[day] - book.trades.loc[day]
        decided = prices.index[prices.index.get_loc(day) - 1]
        answer = model.predict(prices.loc[:decided], params={"held": held.to_list()})
        assert answer.index[0] == decided
        pd.testing.assert_series_equal(answer.iloc[0], book.weights.loc[day], check_names=False, rtol=0, atol=1e-12)
        advice = advise("models:/decisions/1", prices=prices, holdings=held, root=root, today=decided.date())
        pd.testing.assert_series_equal(advice.target, book.weights.loc[day], check_names=False, rtol=0, atol=1e-12)


def test_the_command_shows_weights_trades_turnover_and_age(
    done: StudyResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    holdings = tmp_path / "held.csv"
    holdings.write_text("ticker, value\nMTUM,500\nUSMV,500\n")
    words = ["predict", str(done.folder), "--prices", "embedded", "--holdings", str(holdings), "--today", "2018-09-08"]
    monkeypatch.setattr(sys, "argv", ["portfolio-dfl", *words])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr().out
    assert not left.value.code
    assert "prices up to 2018-09-07 (1 day old), trained on 2018-08-" in shown
    assert re.search(r"MTUM +\+0\.5000 ", shown)
    assert re.search(r"turnover 0\.\d{4} of at most 0\.2", shown)
    assert re.search(r"QUAL +0 ", shown)  # and not what a solver leaves of it
    assert "no holdings were given" not in shown


def test_a_decision_without_holdings_says_what_it_starts_from(done: StudyResult) -> None:
    today = dt.date(2018, 9, 8)
    assumed = advise(done.folder, prices="embedded", today=today)
    assert "no holdings were given: held is what the study started from" in str(assumed)
    assert json.loads(assumed.text("json"))["holdings_given"] is False
    given = advise(done.folder, prices="embedded", today=today, holdings=assumed.held)
    assert given.target.equals(assumed.target)
    assert "no holdings" not in str(given)
    assert json.loads(given.text("json"))["holdings_given"] is True


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not readable as CSV"),
        (bytes(range(128, 256)), "not readable as CSV"),
        (b"ticker,weight\nMTUM,1\nQUAL,1,2,3\n", "not readable as CSV"),
        (b"name,w\nMTUM,1\n", "ticker and weight"),
        (b"ticker;weight\nMTUM;1\n", "ticker and weight"),
        (b"ticker,weight\n", "no row"),
        (b"ticker,weight\nMTUM,1\nQUAL,abc\n", "line 3: QUAL abc"),
        (b"ticker,weight\nMTUM,50%\n", "line 2: MTUM 50%"),
        (b"ticker,weight\nMTUM,\n", "line 2: MTUM"),
        (b"ticker,weight\n,1\n", "line 2"),
        (b"ticker,weight\nXYZ,1\n", "holdings name XYZ"),
        (b"ticker,weight\nMTUM,1\nMTUM,1\n", "twice"),
        (b"ticker,weight\nMTUM,-1\nQUAL,2\n", "long only"),
        (b"ticker,weight\nMTUM,0\n", "not all zero"),
    ],
)
def test_holdings_that_cannot_be_used_are_refused_by_line(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "held.csv"
    file.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)):
        read_holdings(file, TICKERS)


@pytest.mark.parametrize("content", [None, b"", b"\x80\x04garbage" * 50, b"PK\x03\x04truncated"])
def test_a_damaged_model_is_named_with_the_way_out(done: StudyResult, tmp_path: Path, content: bytes | None) -> None:
    copy = shutil.copytree(done.folder, tmp_path / "run")
    window = copy / "strategies" / "decision_focused-seed0" / "strategy" / "window.pt"
    window.unlink()
    if content is not None:
        window.write_bytes(content)
    with pytest.raises(TrackingError, match=r"is damaged.*portfolio-dfl resume"):
        advise(copy, prices="embedded", today=dt.date(2018, 9, 5))


@pytest.mark.parametrize("name", ["config.yaml", "window.pt", "tickers.txt", "lane.txt", "SHA256SUMS"])
@pytest.mark.parametrize("lost", [2, 10_000])
def test_a_model_that_lost_its_end_is_not_used(done: StudyResult, tmp_path: Path, name: str, lost: int) -> None:
    copy = shutil.copytree(done.folder, tmp_path / "run")
    file = copy / "strategies" / "decision_focused-seed0" / "strategy" / name
    file.write_bytes(file.read_bytes()[:-lost])
    with pytest.raises(TrackingError, match=r"is damaged: .*changed; .*portfolio-dfl resume"):
        advise(copy, prices="embedded", today=dt.date(2018, 9, 5))


@pytest.mark.parametrize("model", ["models:/decisions/9", "models:/absent/1", "models:/decisions", "models:/"])
def test_a_model_that_is_not_registered_is_named(done: StudyResult, model: str) -> None:
    with pytest.raises(TrackingError, match=re.escape(model)):
        advise(model, root=done.config.tracking.folder)


def test_fresh_prices_are_read_as_the_studys_were(
    done: StudyResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What lies before the study's first date or after today is not looked at; start and policies may be others."""
    today = dt.date(2018, 9, 7)
    prices = EmbeddedSource().load().loc["2017":"2018"]
    expected = advise(done.folder, prices=prices, today=today)
    spoilt = prices.copy()
    spoilt.loc["2017-06-01", "MTUM"] = -1.0
    spoilt.loc["2018-10-01", "QUAL"] = -1.0
    assert advise(done.folder, prices=spoilt, today=today).target.equals(expected.target)
    late = prices.loc["2018-02-01":]
    assert advise(done.folder, prices=late, today=today).target.equals(expected.target)
    with pytest.raises(DataError, match=r"MTUM 2017-06-01"):
        advise(done.folder, prices=spoilt, today=today, start="2017-01-03")
    gap = prices.copy()
    gap.loc["2018-01-10", "USMV"] = float("nan")
    with pytest.raises(DataError, match="USMV"):
        advise(done.folder, prices=gap, today=today)
    file = tmp_path / "prices.csv"
    gap.to_csv(file)
    words = ["predict", str(done.folder), "--prices", str(file), "--today", "2018-09-07"]
    for ways in (["--policy", "gaps=forward_fill:3"], ["--start", "2018-02-01"]):
        monkeypatch.setattr(sys, "argv", ["portfolio-dfl", *words, *ways])
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code
        assert "prices up to 2018-09-07" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_holdings_of_a_spreadsheet_are_read(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "held.csv"
    file.write_text("ticker,weight\nMTUM,1\n", encoding=encoding)
    assert read_holdings(file, TICKERS)["MTUM"] == 1.0
