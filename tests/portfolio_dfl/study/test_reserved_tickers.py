"""A study whose tickers are named like columns, indices and labels of its own."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pandas as pd
import pytest
from skfolio.datasets import load_factors_dataset
from small_study import brief

from portfolio_dfl.study import resume_study
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.page import write_study_report
from portfolio_dfl.study.result import StudyResult, load_result
from portfolio_dfl.study.run import run_study

RESERVED = ["cash", "Date", "ticker", "Equal weight", "NA"]


@pytest.fixture(scope="module")
def prices() -> pd.DataFrame:
    return load_factors_dataset().loc["2018"].set_axis(RESERVED, axis=1).rename_axis(None)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, prices: pd.DataFrame) -> StudyResult:
    root = tmp_path_factory.mktemp("tickers")
    prices.to_parquet(root / "prices.parquet")
    words = "data.tickers=[cash, Date, ticker, Equal weight, NA]", f"data.source={root / 'prices.parquet'}"
    return run_study(brief(root / "runs", *words, "backtest.end=2018-06-20"))


def test_it_ends_with_regret_and_can_be_reported_and_resumed(done: StudyResult) -> None:
    assert done.scores["regret"].notna().all()
    read = load_result(done.folder)
    assert {tuple(book.weights.columns) for book in read.ledgers.values()} == {tuple(RESERVED)}
    write_study_report(read)
    resume_study(done.folder)


def test_it_can_be_predicted_from_with_holdings_from_a_file(
    done: StudyResult, prices: pd.DataFrame, tmp_path: Path
) -> None:
    (tmp_path / "held.csv").write_text("ticker,weight\ncash,1\nNA,3\n", encoding="utf-8")
    advice = advise(done.folder, prices=prices, holdings=tmp_path / "held.csv", today=dt.date(2018, 12, 31))
    assert advice.held.to_dict() == {"cash": 0.25, "Date": 0.0, "ticker": 0.0, "Equal weight": 0.0, "NA": 0.75}
    assert list(advice.target.index) == RESERVED
