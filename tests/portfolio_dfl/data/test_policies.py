"""Named policies."""

import pandas as pd
import pytest

from portfolio_dfl.data.policies import CHOICES, Policies, describe_choices
from portfolio_dfl.errors import DataError


def test_every_policy_fails_by_default():
    assert all(getattr(Policies(), name) == "fail" for name in CHOICES)


def test_every_choice_is_accepted():
    for name, choices in CHOICES.items():
        for choice in choices:
            value = f"{choice}:3" if choice == "forward_fill" else choice
            assert getattr(Policies(**{name: value}), name) == value


@pytest.mark.parametrize(
    "value", ["forward_fill", "forward_fill:", "forward_fill:0", "forward_fill:x", "drop_dates:3", "fill", ""]
)
def test_an_unknown_choice_is_named_with_the_known_ones(value):
    with pytest.raises(DataError, match=r"gaps can be fail \| drop_dates \| forward_fill:K \| drop_ticker"):
        Policies(gaps=value)


def test_an_unknown_policy_is_named_with_the_nearest():
    with pytest.raises(DataError, match=r"'late_starts'.*'late_start'"):
        Policies.of({"late_starts": "fail"})


def test_a_mapping_a_policies_object_and_none_are_accepted():
    policies = Policies(gaps="forward_fill:2", confirmed_jumps=("BRK B 2020-01-02",))
    assert Policies.of({"gaps": "forward_fill:2", "confirmed_jumps": ["BRK B 2020-01-02"]}) == policies
    assert Policies.of(policies) is policies
    assert Policies.of(None) == Policies()
    assert policies.fill_limit == 2
    assert policies.confirmed == {("BRK B", pd.Timestamp("2020-01-02"))}


@pytest.mark.parametrize("moves", ["SPY 2020-01-02", ["SPY"], ["2020-01-02"], ["SPY 02.01.2020"], 3])
def test_confirmed_moves_must_name_ticker_and_date(moves):
    with pytest.raises(DataError, match="TICKER YYYY-MM-DD"):
        Policies.of({"confirmed_jumps": moves})


def test_choices_are_described_without_fail():
    assert describe_choices("late_start") == "late_start=start_later | drop_ticker"
