"""Groups of tickers from a file: its columns, its tickers as text, and that the study keeps what it said."""

from __future__ import annotations

from pathlib import Path

import pytest

from portfolio_dfl.allocation.limits import ExposureLimits
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.strategies.groups import read_exposures, read_groups, with_columns_read
from portfolio_dfl.strategies.limits import build_limits


def written(folder: Path, text: str) -> str:
    file = folder / "groups.csv"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_tickers_stay_text_and_the_study_keeps_what_the_file_said(tmp_path: Path) -> None:
    path = written(tmp_path, "ticker,sector\n000001,banks\nNA,oil\nTRUE , oil\n")
    expected = {"000001": "banks", "NA": "oil", "TRUE": "oil"}
    assert read_groups(path, "sector") == expected
    limits = {"group_of": path, "group_column": "sector", "groups": {"*": {"max": 0.4}}}
    config = with_columns_read(StudyConfig.parse({"allocation": {"limits": limits}}))
    assert config.allocation.limits.group_of == expected
    assert with_columns_read(config) == config
    assert StudyConfig.from_yaml(config.to_yaml()) == config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ticker,industry\nA,x\n", "has the columns ticker, industry and lacks sector"),
        ("ticker,sector\nA,x\nB,y\nA,y\n", "more than one row for A"),
        ("ticker,sector\nA,x\nB,\n", "no sector for B"),
    ],
)
def test_what_a_file_lacks_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_groups(written(tmp_path, text), "sector")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"group_of: .*nowhere.csv cannot be read"):
        read_groups(str(tmp_path / "nowhere.csv"), "sector")


def test_numbers_of_tickers_are_read_and_kept_as_well(tmp_path: Path) -> None:
    path = written(tmp_path, "ticker,beta\nSPY,1\nAGG,-0.1\n")
    beta = {"values": path, "column": "beta", "max": 0.7}
    config = with_columns_read(StudyConfig.parse({"allocation": {"limits": {"exposures": {"beta": beta}}}}))
    assert config.allocation.limits.exposures["beta"].values == {"SPY": 1.0, "AGG": -0.1}
    assert StudyConfig.from_yaml(config.to_yaml()) == config
    limits = build_limits(config.allocation, ["AGG", "SPY"])
    assert limits == [ExposureLimits((-0.1, 1.0), float("-inf"), 0.7, "beta")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ticker,beta\nSPY,high\n", "exposures.b.values: .* has no finite number in beta: high of SPY"),
        ("ticker,beta\nSPY,inf\n", "inf of SPY"),
        ("ticker,size\nSPY,1\n", "exposures.b.column names the one that is read"),
    ],
)
def test_what_is_no_number_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_exposures("b", written(tmp_path, text), "beta")
