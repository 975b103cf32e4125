"""The section of limits: what it takes, what contradicts itself, and that it is written and read back."""

from __future__ import annotations

import pytest

from portfolio_dfl.config.limits import BenchmarkConfig, GroupConfig, LimitsConfig
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.errors import ConfigError

FULL = """
allocation:
  repair: project
  limits:
    min_weight: {SPY: -0.1, '*': 0.0}
    max_weight: 0.4
    groups:
      equity: {tickers: [SPY, IWM], min: 0.1, max: 0.6}
      '*': {max: 0.3}
    group_of: {SPY: stocks, IWM: stocks, AGG: bonds}
    gross: 1.6
    net: {min: 0.2, max: 0.8}
    cash: BIL
    benchmark: {weights: {SPY: 0.6, AGG: 0.4}, band: {SPY: 0.1}, tracking_error: 0.002}
    max_trade: {SPY: 0.05}
    no_trade: [GLD]
"""


def test_a_section_is_read_and_written_back() -> None:
    config = StudyConfig.from_yaml(FULL)
    assert config.allocation.limits.groups["equity"].max == 0.6
    for comments in (False, True):
        assert StudyConfig.from_yaml(config.to_yaml(comments=comments)) == config


def test_single_limits_are_set_by_dotted_keys() -> None:
    config = StudyConfig().override(["allocation.limits.gross=1.5", "allocation.limits.max_weight={SPY: 0.2}"])
    assert config.allocation.limits == LimitsConfig(gross=1.5, max_weight={"SPY": 0.2})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("limits: {groups: {equity: {tickers: [A], mx: 0.5}}}", "unknown key allocation.limits.groups.equity.mx"),
        ("limits: {max_wieght: 0.5}", "the nearest is allocation.limits.max_weight"),
        ("limits: {groups: {equity: {tickers: [A]}}}", "a group needs a min, a max, or both"),
        ("limits: {groups: {equity: {tickers: [A], min: 0.5, max: 0.2}}}", "min of 0.5 exceeds max of 0.2"),
        ("limits: {groups: {equity: {max: 0.5}}}", "equity, need group_of"),
        ("limits: {benchmark: {band: 0.1}}", "by ticker or by weights"),
        ("limits: {benchmark: {ticker: A, weights: {B: 1.0}}}", "by ticker or by weights"),
        ("limits: {benchmark: {weights: {A: 0.5, B: 0.4}}}", "sum to 0.9; they must sum to 1"),
        ("limits: {gross: 0}", "allocation.limits.gross: a number above 0"),
        ("limits: {no_trade: [A], max_trade: {A: 0.1}}", "no_trade names A, which max_trade names too"),
        ("limits: {no_trade: [A], cash: A}", "no_trade names A, which is cash"),
        ("repair: nearest", "'none' or 'project'"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_key(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        StudyConfig.from_yaml(f"allocation: {{{text}}}")


def test_sections_made_in_python_are_refused_in_the_same_words() -> None:
    with pytest.raises(ConfigError, match="a group needs a min, a max, or both"):
        GroupConfig(tickers=["A"])
    with pytest.raises(ConfigError, match="by ticker or by weights"):
        BenchmarkConfig()
