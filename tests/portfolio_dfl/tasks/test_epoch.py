"""The epoch task trains on the embedded prices, and accounts for all of an epoch's time."""

from __future__ import annotations

from pathlib import Path

import pytest

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.catalogue import run_task


def test_the_parts_make_up_the_epoch(tmp_path: Path) -> None:
    result = run_task("epoch", {"start": "2020-01-02", "horizon": 5}, reduced=True, folder=tmp_path)
    wall = result.rows[result.rows["kind"] == "wall"].set_index("part")["seconds"]
    assert wall["its solves"] > 0.0
    assert wall["its solves"] + wall["the rest"] == pytest.approx(wall["the epoch"])
    packages = result.rows[result.rows["kind"] == "profile"]
    assert {"lightning", "portfolio_dfl"} <= set(packages["part"])
    assert "5 assets, H = 5, 120 dates a step" in str(result)


def test_senseless_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="batch is 0; it must be at least 1"):
        run_task("epoch", {"batch": 0}, folder=tmp_path)
    with pytest.raises(ConfigError, match="horizon 100000000 needs 100000120 returns"):
        run_task("epoch", {"horizon": 100_000_000}, folder=tmp_path)
