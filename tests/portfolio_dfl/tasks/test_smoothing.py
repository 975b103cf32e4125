"""The table of smoothing: bias against use, whatever the machine."""

from __future__ import annotations

from pathlib import Path

from portfolio_dfl.tasks.smoothing import smoothing


def test_a_large_smoothing_is_biased_inside_faces_and_useful_at_vertices(runs: Path) -> None:
    rows = smoothing(instances=3, deltas=[1e-6, 1.0], folder=runs).rows
    faces, vertices = (rows[rows["where"] == where].set_index("delta") for where in ("inside a face", "at a vertex"))
    assert faces.loc[1e-6, "bias"] < 1e-4 < 0.1 < faces.loc[1.0, "bias"]
    assert vertices.loc[0.0, "informative"] == 0.0
    assert vertices.loc[0.0, "fall"] == 0.0
    assert vertices.loc[1.0, "informative"] == 1.0
    assert vertices.loc[1.0, "fall"] > 0.2
