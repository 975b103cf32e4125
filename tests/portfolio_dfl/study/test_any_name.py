"""A law over names, places and consoles: a study is refused before its training, or it ends and can be gone on with."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_study import empty_store, small

from portfolio_dfl.cli import main
from portfolio_dfl.data.sources import EmbeddedSource

LETTERS = st.characters(codec="utf-8", exclude_categories=["Cs"]) | st.sampled_from("/'\"?#%&<>:. \n\\")
WORDS = st.text(LETTERS, min_size=1, max_size=12)


def call(words: list[str], encoding: str) -> tuple[int, list[str]]:
    """Exit code and lines on standard error of a command on a console of this encoding."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["portfolio-dfl", *words])
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as left:
            main()
        shown = streams[1].buffer
        assert isinstance(shown, io.BytesIO)
        lines = [line for line in shown.getvalue().decode(encoding).split("\n") if line.strip()]
    return int(left.value.code or 0), lines


@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    name=st.text(LETTERS, min_size=1, max_size=12) | st.just("x" * 250),
    experiment=WORDS,
    model=WORDS,
    folder=WORDS.filter(lambda text: not {"/", "\x00"} & set(text) and text not in (".", "..")),
    ticker=WORDS,
    encoding=st.sampled_from(["cp1252", "latin-1", "ascii", "cp437", "utf-8"]),
)
@example(
    name="Größe",
    experiment="/team/it's",
    model="<b>best</b>",
    folder="a b#%20研",
    ticker="<i>A&amp;'",
    encoding="cp1252",
)
@example(name="x", experiment="../../up", model="a'b", folder="what?", ticker="B", encoding="utf-8")
@example(name="x", experiment="e", model="a/b", folder="f", ticker="B", encoding="ascii")
def test_a_study_is_refused_at_once_or_ends_and_goes_on(
    name: str, experiment: str, model: str, folder: str, ticker: str, encoding: str
) -> None:
    room = Path(tempfile.mkdtemp())
    before = Path.cwd()
    os.chdir(room)
    try:
        prices = EmbeddedSource().load().loc["2018"]
        prices = prices.rename(columns={prices.columns[0]: ticker})
        prices.to_parquet("prices.parquet")
        plain = small(Path("runs")).plain()
        plain |= {"name": name, "data": {"source": "prices.parquet"}}
        plain["backtest"] |= {"end": "2018-06-20", "strategies": ["decision_focused"]}
        plain["training"]["epochs"], plain["evaluation"]["bootstrap"] = 1, 0
        plain["tracking"] |= {"folder": folder, "experiment": experiment, "register_as": model}
        Path("study.yaml").write_text(yaml.safe_dump(plain, allow_unicode=True), encoding="utf-8")
        empty_store(Path(folder))
        code, told = call(["run", "study.yaml"], encoding)
        runs = [path.parent for path in Path(folder).resolve().glob("*/config.yaml")]
        if code:
            assert code == 2
            assert len(told) == 1, told
            assert told[0].startswith("error: ")
            assert runs == []
            return
        assert sorted(os.listdir(room)) == sorted({"prices.parquet", "study.yaml", folder})
        (run,) = runs
        os.chdir(before)
        for words in (["report", str(run)], ["resume", str(run)], ["predict", str(run), "--today", "2018-12-31"]):
            assert call(words, encoding)[0] == 0
        page = (run / "report.html").read_text(encoding="utf-8")
        assert ticker == pd.read_parquet(run / "prices.parquet").columns[0]
        assert "<i>A" not in page
    finally:
        os.chdir(before)
        shutil.rmtree(room)
