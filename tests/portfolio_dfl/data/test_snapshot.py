"""Prices frozen on disk."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.panel import build_panel, content_hash
from portfolio_dfl.data.snapshot import Snapshot, SnapshotSource, freeze, open_snapshot, snapshot_folders
from portfolio_dfl.data.sources import open_source
from portfolio_dfl.data.store import list_snapshots
from portfolio_dfl.errors import DataError


def prices(seed=0, rows=60):
    dates = pd.DatetimeIndex(pd.bdate_range("2022-01-03", periods=rows).to_numpy(), name="Date")
    values = np.random.default_rng(seed).uniform(50, 150, (rows, 3))
    frame = pd.DataFrame(values, index=dates, columns=["AGG", "GLD", "SPY"])
    frame.iloc[5, 0] = np.nan
    return frame


def frozen(folder, seed=0, **options):
    return freeze(prices(seed), "etf", folder=folder, arguments={"source": "test"}, **options)


def test_what_is_frozen_comes_back_equal_to_the_bit(tmp_path):
    snapshot = frozen(tmp_path)
    again = open_snapshot("etf", tmp_path)
    pd.testing.assert_frame_equal(again.prices, prices())
    assert again.sha256 == snapshot.sha256 == content_hash(prices())


def test_the_manifest_says_where_the_prices_come_from(tmp_path):
    manifest = json.loads((frozen(tmp_path).path / "manifest.json").read_text())
    assert manifest["arguments"] == {"source": "test"}
    assert (manifest["tickers"], manifest["dates"], manifest["first"]) == (3, 60, "2022-01-03")
    assert set(manifest["libraries"]) == {"pandas", "pyarrow"}
    assert pd.Timestamp(manifest["fetched_at"]).tz is not None


def test_a_snapshot_is_a_source_by_its_folder_or_by_a_version(tmp_path):
    first, second = frozen(tmp_path, 0), frozen(tmp_path, 1)
    newest = open_source(tmp_path / "etf")
    assert isinstance(newest, SnapshotSource)
    assert newest.describe()["sha256"] == second.sha256
    old = open_source(first.path)
    assert old.name == f"etf@{first.version}"
    pd.testing.assert_frame_equal(old.load(), prices(0))
    assert open_snapshot(f"etf@{first.version}", tmp_path).sha256 == first.sha256


def test_a_panel_from_a_snapshot_is_the_panel_from_its_source(tmp_path):
    frozen(tmp_path)
    options = {"calendar": None, "policies": {"gaps": "drop_dates", "jumps": "accept"}}
    assert build_panel(open_source(tmp_path / "etf").load(), **options).sha256 == (
        build_panel(prices(), **options).sha256
    )


def test_freezing_the_same_content_again_keeps_the_first_version(tmp_path):
    first = frozen(tmp_path)
    written = (first.path / "manifest.json").read_bytes()
    assert frozen(tmp_path).version == first.version
    assert (first.path / "manifest.json").read_bytes() == written


def test_a_version_may_be_written_without_becoming_current(tmp_path):
    first = frozen(tmp_path, 0)
    frozen(tmp_path, 1, make_current=False)
    assert open_snapshot("etf", tmp_path).version == first.version


def test_a_changed_price_file_is_refused(tmp_path):
    snapshot = frozen(tmp_path)
    prices(1).to_parquet(snapshot.path / "prices.parquet")
    with pytest.raises(DataError, match="was changed after it was frozen"):
        SnapshotSource(tmp_path / "etf").load()


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 99}'])
def test_a_broken_manifest_is_named(tmp_path, content):
    snapshot = frozen(tmp_path)
    (snapshot.path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json"):
        open_snapshot("etf", tmp_path)
    assert "manifest.json" in list_snapshots(tmp_path).text()


def test_an_unknown_snapshot_says_how_to_make_one(tmp_path):
    with pytest.raises(DataError, match="data fetch"):
        open_snapshot("nothing", tmp_path)
    with pytest.raises(DataError, match="data fetch"):
        open_snapshot(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["", "../etf", "a/b", ".hidden", "x" * 65, "etf@1"])
def test_a_name_that_cannot_be_a_folder_is_refused(tmp_path, name):
    with pytest.raises(DataError, match="snapshot name"):
        freeze(prices(), name, folder=tmp_path, arguments={})


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        freeze(prices(), "etf", folder=tmp_path / "file", arguments={})


def test_leftovers_of_a_killed_writer_are_no_snapshots_and_are_swept_when_old(tmp_path):
    young, old = tmp_path / "etf" / ".partial-young", tmp_path / "etf" / ".partial-old"
    for path in (young, old):
        path.mkdir(parents=True)
        (path / "prices.parquet").write_bytes(b"PAR1 half")
    os.utime(old, (0, 0))
    assert snapshot_folders(tmp_path) == []
    frozen(tmp_path)
    assert young.exists()
    assert not old.exists()
    assert len(list_snapshots(tmp_path).snapshots) == 1


WRITER = """
import sys
import numpy as np, pandas as pd
from portfolio_dfl.data.snapshot import freeze
dates = pd.DatetimeIndex(pd.bdate_range("2010-01-01", periods=3000).to_numpy(), name="Date")
print("ready", flush=True)
for seed in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
    values = np.random.default_rng(seed).uniform(50, 150, (3000, 100))
    frame = pd.DataFrame(values, index=dates, columns=[f"T{k}" for k in range(100)])
    freeze(frame, "etf", folder=sys.argv[1], arguments={"seed": str(seed)})
"""


def writer(folder, first_seed, count):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(first_seed), str(count)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def all_versions(folder):
    return [
        Snapshot("etf", path, json.loads((path / "manifest.json").read_text()))
        for path in sorted(folder.iterdir())
        if path.is_dir() and not path.name.startswith(".")
    ]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_of_two_writers_one_killed_midway_leaves_a_readable_folder_and_true_manifests(tmp_path):
    survivor = writer(tmp_path, 0, 12)
    for attempt, delay in enumerate((0.03, 0.11, 0.19)):
        victim = writer(tmp_path, 1000 * (attempt + 1), 10_000)
        time.sleep(delay)
        victim.kill()
        victim.wait()
        # In the midst of it, too, whatever is current is whole.
        if (tmp_path / "etf" / "current").exists():
            assert open_snapshot("etf", tmp_path).prices.shape == (3000, 100)
    assert survivor.wait(timeout=60) == 0
    listed = list_snapshots(tmp_path)
    assert listed.broken == ()
    assert len(listed.snapshots) == 1
    versions = all_versions(tmp_path / "etf")
    assert len(versions) >= 12
    for version in versions:
        assert content_hash(version.prices) == version.sha256
        assert version.sha256.startswith(version.version)


def test_two_writers_of_the_same_content_agree(tmp_path):
    one, other = writer(tmp_path, 7, 1), writer(tmp_path, 7, 1)
    assert (one.wait(timeout=60), other.wait(timeout=60)) == (0, 0)
    (version,) = all_versions(tmp_path / "etf")
    assert version.prices.shape == (3000, 100)
    assert not list((tmp_path / "etf").glob(".partial-*"))


def test_a_snapshot_may_be_moved(tmp_path):
    frozen(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert open_snapshot("etf", tmp_path / "there").prices.shape == (60, 3)
