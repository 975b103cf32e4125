"""No decision depends on who is a member later, on what leaves later, or on what that will have returned."""

from __future__ import annotations

import changing_study
import numpy as np
import pandas as pd
import pytest
from changing_study import DATES

from portfolio_dfl.backtest import universes as module
from portfolio_dfl.config.study import STRATEGIES, StudyConfig
from portfolio_dfl.data.local_sources import IN_MEMORY
from portfolio_dfl.strategies.walk import WalkTask, take_walk
from portfolio_dfl.study.plan import resolve_plan
from portfolio_dfl.study.span import load_panel

CAUSAL = [name for name in STRATEGIES if name != "perfect_foresight"]


def decided(members: pd.DataFrame, prices: pd.DataFrame, lag: int = 0) -> dict[str, pd.DataFrame]:
    """Target weights of every strategy that does not look ahead on purpose."""
    config = StudyConfig.of(changing_study.STUDY, backtest={"end": "2018-09-14", "strategies": CAUSAL, "lag": lag})
    config = config.override([f"data.source={IN_MEMORY}", f"data.members={IN_MEMORY}", "data.policies={jumps: accept}"])
    plan = resolve_plan(config, load_panel(config, prices, members))
    first, last = plan.span.dates[0], plan.span.dates[-1]
    tasks = [
        WalkTask(plan.setting, lane, plan.returns, first, last, plan.retrain_every, lag, changing=plan.changing)
        for lane in plan.lanes
    ]
    # What a ticker is called does depend on whether it is used again.
    first_use = {"TWICE": f"TWICE@{DATES[0].date()}"}
    return {task.lane.strategy: take_walk(task).targets.rename(columns=first_use) for task in tasks}


def later(t: pd.Timestamp) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Another future of members and prices: after t some leave that stayed, some stay that left, others enter."""
    prices, table = changing_study.prices(), changing_study.members()
    after = prices.index > t
    whole = changing_study.prices().ffill().bfill()
    noise = np.random.default_rng(t.day).lognormal(0.0, 0.05, (int(after.sum()), prices.shape[1]))
    prices.loc[after] = whole.loc[after].to_numpy() * noise
    ended = pd.to_datetime(table["to"])
    table.loc[ended >= t, ["to", "delisting_return"]] = None  # those left on t or later; on t it is not known yet
    table = table[pd.to_datetime(table["from"]) <= t]
    leaves = DATES[DATES.searchsorted(t)]
    table.loc[table["ticker"] == "MORE", ["to", "delisting_return"]] = [leaves, -0.9]
    enters = pd.DataFrame([("NEW", DATES[DATES.searchsorted(t) + 1], None, None)], columns=table.columns)
    return pd.concat([table.astype(object), enters.astype(object)]), prices.assign(NEW=whole["KEPT"])


def differing(t: pd.Timestamp, lag: int = 0) -> list[str]:
    """Strategies whose weights up to t depend on what comes after it."""
    expected = decided(changing_study.members(), changing_study.prices(), lag)
    found = decided(*later(t), lag)
    wrong = []
    for strategy, weights in expected.items():
        both = list(weights.columns.intersection(found[strategy].columns))
        assert len(both) >= 6
        assert t in weights.index
        if not np.array_equal(found[strategy].loc[:t, both], weights.loc[:t, both], equal_nan=True):
            wrong.append(strategy)
        after = found[strategy].loc[t:, both].iloc[1:]
        # The change is one, but to what orders nothing.
        same = np.array_equal(after, weights.loc[t:, both].iloc[1:], equal_nan=True)
        assert not same or (lag and strategy == "buy_and_hold"), strategy
    return wrong


@pytest.mark.parametrize(
    ("place", "lag"),
    [(129, 0), (150, 1), (159, 0)],
    ids=[
        "the last close of one that is used again",
        "that of one that leaves, a close late",
        "that of one that is lost",
    ],
)
def test_no_decision_up_to_a_date_depends_on_the_members_after_it(place: int, lag: int) -> None:
    assert differing(DATES[place], lag) == []


def test_a_look_at_tomorrows_members_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    known = module.membership

    def tomorrows(members: pd.DataFrame, returns: pd.DataFrame) -> np.ndarray:
        ahead = known(members.shift(-1, fill_value=False) & members, returns)
        assert ahead is not None
        return ahead

    monkeypatch.setattr(module, "membership", tomorrows)
    assert set(differing(DATES[159])) == {*CAUSAL} - {"buy_and_hold"}  # which does not trade
