"""Known markets in small: where decision-focused training pays, and where it does not."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from portfolio_dfl.tasks.mechanism import KnownMarket, mechanism


def test_it_pays_where_a_clear_signal_is_misread_and_not_where_the_forecast_is_right(runs: Path) -> None:
    result = mechanism(reduced=True, folder=runs)
    rows = result.rows.set_index("knob")
    assert rows.loc["signal", "low"] > 0.0
    assert rows.loc["curvature", "gain"] < 0.0
    assert (rows[["two_stage", "decision_focused"]] <= 1.0).all().all()
    assert "ahead beyond chance at: signal 1." in str(result)
    assert "(synthetic)" in result.title
    written = pd.read_csv(runs / "tasks" / "mechanism" / "mechanism.csv")
    np.testing.assert_array_equal(written["gain"], result.rows["gain"])


@pytest.mark.parametrize("curvature", [0.0, 0.5, 1.0])
def test_a_signal_has_the_size_and_the_misspecification_that_are_said(curvature: float) -> None:
    cell = KnownMarket(curvature=curvature, signal=0.4)
    x = torch.randn(400_000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = cell.expected(x)
    assert torch.equal(expected[:, 0], torch.zeros(len(x), dtype=torch.float64))
    shape = expected[:, 1] / 0.01
    assert float(shape.mean()) == pytest.approx(0.0, abs=5e-3)
    assert float(shape.std()) == pytest.approx(0.4, rel=0.03)
    correlation = float(np.corrcoef(x[:, 0], shape)[0, 1])
    assert 1.0 - correlation**2 == pytest.approx(cell.misspecification, abs=0.02)


def test_misspecification_runs_from_none_to_all() -> None:
    found = [KnownMarket(curvature=value).misspecification for value in (0.0, 1e-8, 0.5, 1.0, 3.0)]
    assert found[:2] == [0.0, 0.0]
    assert found == sorted(found)
    assert math.isclose(found[3], 1.0 - 1.0 / math.expm1(1.0))


def test_the_page_of_the_evidence_has_the_lines_of_its_table() -> None:
    pages = Path(__file__).resolve().parents[3] / "docs" / "pages"
    text = (pages / "evidence.md").read_text(encoding="utf-8")
    for row in pd.read_csv(pages / "evidence" / "mechanism.csv").to_dict("records"):
        interval = f"{row['gain']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]".replace("-", "−")
        assert f"| {row['two_stage']:.3f} | {row['decision_focused']:.3f} | {interval} |" in text
