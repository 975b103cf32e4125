"""The task of factor risk times the layer beside PIQP and Clarabel, which find the same plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.factor_risk import factor_risk


def test_solvers_agree_and_ratios_are_to_the_better_one(tmp_path: Path) -> None:
    result = factor_risk(sizes=[(30, 2, 3)], repeats=2, folder=tmp_path)
    rows = result.rows.set_index("layer")
    better = rows.loc[["PIQP, forward", "Clarabel, forward"], "ms"].min()
    assert rows.loc["ours", "ratio"] == pytest.approx(rows.loc["ours", "ms"] / better)
    assert rows.loc["ours", "certificate"] < 1e-10
    assert rows.loc["ours", "difference"] < 1e-5
    assert rows.loc["ours", "MiB"] > 0.0
    assert "N=30 H=2 K=3" in str(result)
    assert result.folder is not None
    assert (result.folder / "factor-risk.html").is_file()


def test_senseless_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sizes has 0 in it; each must be at least 1"):
        factor_risk(sizes=[(30, 0, 3)], folder=tmp_path)
