"""Which assets are chosen among when, and that a policy is asked about these alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.backtest.baselines import EqualWeight
from portfolio_dfl.backtest.universes import AmongMembers, rows_to_universes, universe_rows, universes
from portfolio_dfl.errors import BacktestError

DATES = pd.bdate_range("2024-01-01", periods=12)


def market() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A and B stay, C leaves after the sixth close, D is listed on the third and a member from the fourth on."""
    rng = np.random.default_rng(0)
    returns = pd.DataFrame(rng.normal(0.0, 0.01, (12, 4)), index=DATES, columns=list("ABCD"))
    members = pd.DataFrame(True, index=DATES, columns=list("ABCD"))
    returns.loc[DATES[7] :, "C"] = np.nan
    members.loc[DATES[6] :, "C"] = False
    returns.loc[: DATES[2], "D"] = np.nan
    members.loc[: DATES[2], "D"] = False
    return returns, members


def found(every: int = 4, needed: int = 3) -> list[tuple[int, str, str]]:
    """Position of the date, the chosen, and those that wait."""
    made = universes(*market(), DATES[2:], every=every, needed=needed)
    return [
        (int(DATES.get_loc(one.since)), "".join(one.assets), "".join(one.waiting))  # type: ignore[arg-type]
        for one in made
    ]


def test_universes_are_made_up_when_it_is_learned_and_after_one_left() -> None:
    assert found() == [(2, "ABC", ""), (6, "ABD", ""), (10, "ABD", "")]
    assert found(every=3) == [(2, "ABC", ""), (5, "ABCD", ""), (6, "ABD", ""), (8, "ABD", ""), (11, "ABD", "")]


def test_a_member_without_the_history_that_is_needed_waits() -> None:
    assert found(every=2)[:2] == [(2, "ABC", ""), (4, "ABC", "D")]


def test_the_history_of_a_universe_begins_where_all_of_its_assets_have_returns() -> None:
    returns, members = market()
    made = universes(returns, members, DATES[2:], every=4, needed=3)[1]
    history = made.history(returns.loc[: DATES[6]])
    assert list(history) == ["A", "B", "D"]
    assert list(history.index) == list(DATES[3:7])


def test_too_few_members_are_told_with_the_date() -> None:
    returns, members = market()
    members.loc[DATES[8] :, ["B", "D"]] = False
    with pytest.raises(BacktestError, match=r"on 2024-01-11 1 of 1 members have the 3 returns that a decision needs"):
        universes(returns, members, DATES[2:], every=4, needed=3)
    with pytest.raises(BacktestError, match="on 2024-01-03 0 of 3 members have the 4 returns"):
        universes(*market(), DATES[2:], every=4, needed=4)


def test_universes_are_written_as_a_table_and_read_back() -> None:
    made = universes(*market(), DATES[2:], every=2, needed=3)
    assert rows_to_universes(universe_rows(made)) == made


def test_a_policy_is_asked_about_its_universe_alone_and_holds_nothing_else() -> None:
    returns, members = market()
    asked: list[tuple[list[str], list[float]]] = []

    class Watched(EqualWeight):
        def decide(self, history: pd.DataFrame, held: np.ndarray) -> np.ndarray:
            assert not history.isna().to_numpy().any()
            asked.append((list(history), held.tolist()))
            return super().decide(history, held)

    policy = AmongMembers(
        "watched", universes(returns, members, DATES[2:], every=4, needed=3), lambda assets: Watched()
    )
    policy.fit(returns.loc[: DATES[6]])
    weights = policy.decide(returns.loc[: DATES[6]], np.array([0.5, 0.1, 0.4, 0.0]))
    assert weights is not None
    assert weights.tolist() == [1 / 3, 1 / 3, 0.0, 1 / 3]
    assert asked[0][0] == ["A", "B", "D"]
    np.testing.assert_allclose(asked[0][1], [0.5 / 0.6, 0.1 / 0.6, 0.0])  # what left has been sold for them


def test_an_answer_of_another_shape_is_refused() -> None:
    class Wrong(EqualWeight):
        def decide(self, history: pd.DataFrame, held: np.ndarray) -> np.ndarray:
            return np.full(4, 0.25)

    returns, members = market()
    policy = AmongMembers("wrong", universes(returns, members, DATES[2:], every=4, needed=3), lambda assets: Wrong())
    with pytest.raises(BacktestError, match=r"wrong decided on 2024-01-03 with weights of shape \(4,\), there are 3"):
        policy.decide(returns.loc[: DATES[2]], np.array([0.5, 0.1, 0.4, 0.0]))
