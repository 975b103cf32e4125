"""The runtime task times the layer beside PIQP, prints the paper's table and saves what it found."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.peers import PEERS
from portfolio_dfl.tasks.runtime import runtime


def test_the_table_stands_beside_the_papers_and_is_saved(tmp_path: Path) -> None:
    result = runtime(
        horizons=(10, 20), repeats=2, batch=4, batch_horizons=(10,), peers=[], reduced=True, folder=tmp_path
    )
    text = str(result)
    for words in ("PIQP, bare solve", "PIQP, set-up and solve", "dXPP (paper)", "batch of 4", "11.9"):
        assert words in text
    ms = result.rows[result.rows["metric"] != "batch of 4"].set_index(["layer", "metric", "horizon"])["ms"].sort_index()
    ours, alone = ms["ours"], ms["identity (PyTorch alone)"]
    bare, fresh = ms["PIQP, bare solve", "total"], ms["PIQP, set-up and solve", "total"]
    rows = (line.partition(" backward ") for line in text.splitlines())
    shown = {
        name.strip(): [float(figure) for figure in figures.split()] for name, _, figures in rows if "of PIQP" in name
    }
    for name, expected in (
        ("ours, of PIQP", ours["backward"] / bare),
        ("ours beyond the identity, of PIQP", (ours["backward"] - alone["backward"]) / bare),
        ("ours, of PIQP with set-up", ours["backward"] / fresh),
    ):
        assert shown[name] == pytest.approx(expected.to_list(), rel=1e-2)
    assert result.folder is not None
    saved = pd.read_csv(result.folder / "runtime.csv")
    assert set(saved["metric"]) == {"forward", "backward", "total", "batch of 4"}
    assert (saved.loc[saved["metric"] == "total", "ms"] > 0.0).all()
    assert (result.folder / "runtime.html").is_file()


def test_senseless_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="horizons has 0 in it; each must be at least 1"):
        runtime(horizons=(0,), folder=tmp_path)
    with pytest.raises(ConfigError, match="no peer is called"):
        runtime(horizons=(1,), peers=["nobody"], folder=tmp_path)


def test_peers_are_left_out_where_their_dense_matrices_do_not_fit(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portfolio_dfl.tasks.runtime.fits_memory", lambda size: False)
    result = runtime(horizons=(2,), repeats=1, batch=0, folder=runs)
    assert not set(result.rows["layer"]) & set(PEERS)
