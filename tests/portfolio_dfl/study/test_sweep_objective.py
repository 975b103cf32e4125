"""A search judges all its trials by one utility, and says which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import small, store_of

from portfolio_dfl.study.span import decision_span, load_panel
from portfolio_dfl.study.sweep import SweepResult, run_sweep, validation_score

# Portfolios that hardly move, and λ that would judge them very differently.
STILL = ("allocation.turnover_limit=1e-6", "sweep.days=20", "sweep.trials=4")
OVER_RISK_AVERSION = "sweep.space={allocation.risk_aversion: [1, 10, 50]}"


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    return run_sweep(small(tmp_path_factory.mktemp("runs"), OVER_RISK_AVERSION, *STILL))


def test_a_search_over_risk_aversion_scores_at_one(search: SweepResult) -> None:
    assert len(set(search.trials["allocation.risk_aversion"])) > 1
    assert search.trials["score"].max() - search.trials["score"].min() < 1e-3


def test_trials_judged_at_their_own_risk_aversion_would_not_compare(search: SweepResult, tmp_path: Path) -> None:
    config = small(tmp_path, *STILL, "backtest.strategies=[decision_focused]")
    returns = load_panel(config).returns
    known = returns.loc[: decision_span(config, returns).dates[0]]
    span = (search.start, search.end)
    mild = validation_score(config.override("allocation.risk_aversion=1"), known, *span)
    harsh = validation_score(config.override("allocation.risk_aversion=50"), known, *span)
    assert mild - harsh > 1e-2
    fixed = validation_score(config.override(["allocation.risk_aversion=50", "sweep.risk_aversion=1"]), known, *span)
    assert fixed == pytest.approx(mild, abs=1e-3)


def test_the_best_of_a_search_over_risk_aversion_scores_the_same_again(search: SweepResult) -> None:
    returns = load_panel(search.best).returns
    known = returns.loc[: decision_span(search.best, returns).dates[0]]
    assert validation_score(search.best, known, search.start, search.end) == search.score


def test_a_search_says_by_what_it_judged(search: SweepResult) -> None:
    assert search.risk_aversion == 10.0
    assert "best utility at λ = 10, decisions from 2018-05-" in str(search)
    folder = search.path.parent
    store = store_of(folder)
    tags = store.client.get_run(store.find_run({"kind": "sweep"}) or "").data.tags
    assert (tags["objective"], tags["risk_aversion"]) == ("utility", "10.0")
    assert tags["last_decision"] == f"{search.end:%Y-%m-%d}"


def test_what_every_trial_earned_is_kept_and_has_its_score(search: SweepResult) -> None:
    assert list(search.returns.columns) == list(search.trials["trial"])
    assert search.returns.index[0] > search.start
    assert search.returns.notna().all().all()
    best = search.returns[search.trials["score"].idxmax()]
    utility = 252 * (best.mean() - 0.5 * search.risk_aversion * best.var(ddof=1))
    assert utility == pytest.approx(search.score, rel=1e-9)
    written = pd.read_csv(search.path.with_suffix(".csv"), index_col="date", parse_dates=True)
    np.testing.assert_array_equal(written.to_numpy(), search.returns.to_numpy())
