"""The study of many assets, in small."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_study import empty_store

from portfolio_dfl.tasks.universe import synthetic_prices, universe


def test_the_table_says_where_the_time_went(runs: Path) -> None:
    (runs / "tasks" / "universe").mkdir(parents=True, exist_ok=True)
    empty_store(runs / "tasks" / "universe" / "studies")
    result = universe(reduced=True, folder=runs)
    row = result.rows.iloc[0]
    assert row["assets"] == 60
    assert row["weeks"] > 40
    assert min(row["training_s"], row["decisions_s"], row["rest_s"]) > 0.0
    assert row["training_s"] + row["decisions_s"] + row["rest_s"] == pytest.approx(row["seconds"])
    assert row["mebibytes"] > 100.0
    assert "synthetic" in result.title


def test_synthetic_prices_are_the_same_every_time() -> None:
    one, other = (synthetic_prices(5, 40, 3, seed=2) for _ in range(2))
    assert one.equals(other)
    assert (one > 0.0).all().all()
