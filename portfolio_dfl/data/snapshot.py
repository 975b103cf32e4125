"""Prices frozen on disk, with a manifest that says what they are, so that a study can be run again offline.

A snapshot is a folder of versions; each version is a folder with ``prices.parquet`` and ``manifest.json``, named
by the hash of its content, written aside and moved into place in one step. ``current`` names the version that
the snapshot stands for. Nothing is ever overwritten: a study may name the snapshot or one version of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pandas as pd

from portfolio_dfl.data.flags import PanelReport
from portfolio_dfl.data.manifest import MANIFEST, new_manifest, read_manifest
from portfolio_dfl.data.panel import content_hash
from portfolio_dfl.data.parquet import parquet_bytes, read_parquet
from portfolio_dfl.errors import DataError
from portfolio_dfl.wording import counted

__all__ = ["SNAPSHOTS", "Snapshot", "SnapshotSource", "freeze", "is_snapshot", "open_snapshot", "snapshot_folders"]

#: Where snapshots lie by default, relative to the working directory.
SNAPSHOTS = Path("data") / "snapshots"

_PRICES, _CURRENT = "prices.parquet", "current"
_PARTIAL = ".partial-"
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
_ABANDONED_AFTER = 3600.0


@dataclass(frozen=True)
class Snapshot:
    """One version of a snapshot.

    Attributes
    ----------
    name
        Of the snapshot.
    path
        Folder of this version.
    manifest
        Source, arguments, time, library versions, hashes, completeness table, findings.
    """

    name: str
    path: Path
    manifest: Mapping[str, Any]

    @property
    def sha256(self) -> str:
        """Hash of dates, tickers and prices, as :func:`~portfolio_dfl.data.panel.content_hash` takes it."""
        return str(self.manifest["sha256"])

    @property
    def version(self) -> str:
        """Name of the version: the first twelve digits of the hash."""
        return self.path.name

    @cached_property
    def prices(self) -> pd.DataFrame:
        """Tidy prices as fetched, before any policy, [T, N] float64 with NaN.

        Raises
        ------
        DataError
            A file that is not what the manifest says.
        """
        file = self.path / _PRICES
        try:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise DataError(f"snapshot {self.name}: {file} cannot be read: fetch it again") from error
        if digest != self.manifest["file_sha256"]:
            raise DataError(f"snapshot {self.name}: {file} was changed after it was frozen: fetch it again")
        prices = read_parquet(file)
        if content_hash(prices) != self.sha256:
            raise DataError(f"snapshot {self.name}: the prices do not match the manifest: fetch it again")
        return prices

    def text(self) -> str:
        """Summary of the manifest."""
        m = self.manifest
        size = f"{counted(m['tickers'], 'ticker')}, {counted(m['dates'], 'date')}"
        arguments = ", ".join(f"{key}={value}" for key, value in m["arguments"].items())
        return (
            f"{self.name}@{self.version}: {size}, {m['first']} to {m['last']}\n"
            f"  {arguments}\n  fetched {m['fetched_at']}, sha256 {self.sha256}\n  {self.path}"
        )

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class SnapshotSource:
    """A snapshot as a source of prices, so that studies run offline and again.

    Attributes
    ----------
    path
        Folder of the snapshot, or of one of its versions.
    """

    path: str | Path

    @property
    def name(self) -> str:
        """Name and version."""
        snapshot = open_snapshot(self.path)
        return f"{snapshot.name}@{snapshot.version}"

    def describe(self) -> dict[str, str]:
        """Path, version and hash."""
        snapshot = open_snapshot(self.path)
        return {
            "source": "snapshot",
            "path": str(self.path),
            "version": snapshot.version,
            "sha256": snapshot.sha256,
        }

    def load(self) -> pd.DataFrame:
        """Prices of the snapshot, their hash verified."""
        return open_snapshot(self.path).prices.copy()


def open_snapshot(name: str | Path, folder: str | Path | None = None) -> Snapshot:
    """Open the current version of a snapshot, or the version that is named.

    Parameters
    ----------
    name
        Path of a snapshot's folder or of a version in it; or, with ``folder``, a name as in ``etf7`` or
        ``etf7@0123456789ab``.
    folder
        Where snapshots lie.

    Raises
    ------
    DataError
        No such snapshot or version, or a manifest that cannot be read.
    """
    if folder is None:
        path = Path(name)
    else:
        word, _, wanted = str(name).partition("@")
        path = Path(folder) / word / wanted
    if (path / MANIFEST).is_file():
        return Snapshot(path.resolve().parent.name, path, read_manifest(path))
    try:
        current = (path / _CURRENT).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise DataError(f"no snapshot at {path}: make one with 'portfolio-dfl data fetch'") from error
    return Snapshot(path.resolve().name, path / current, read_manifest(path / current))


def is_snapshot(path: Path) -> bool:
    """Whether a folder is a snapshot, or one version of one, be it damaged or not."""
    return (path / MANIFEST).is_file() or (path / _CURRENT).is_file()


def snapshot_folders(folder: str | Path) -> list[Path]:
    """Folders of the snapshots under a folder, sorted by name; leftovers of broken writes are none."""
    root = Path(folder)
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if (path / _CURRENT).is_file())


def freeze(
    prices: pd.DataFrame,
    name: str,
    *,
    folder: str | Path = SNAPSHOTS,
    arguments: Mapping[str, str],
    report: PanelReport | None = None,
    completeness: pd.DataFrame | None = None,
    make_current: bool = True,
) -> Snapshot:
    """Write a version of a snapshot in one step; what was there stays as it was until it is complete.

    Parameters
    ----------
    prices
        Tidy prices, [T, N] float64 by tz-naive date; NaN allowed.
    name
        Of the snapshot: letters, digits, point, hyphen, underscore.
    folder
        Where snapshots lie.
    arguments
        How the prices were asked for.
    report, completeness
        Findings and completeness table for the manifest.
    make_current
        Whether the snapshot stands for this version from now on.

    Raises
    ------
    DataError
        A name that cannot be a folder, or a folder that cannot be written.
    """
    if not _NAME.match(name):
        raise DataError(f"snapshot name {name!r} must be letters, digits, '.', '-' or '_', at most 64 of them")
    digest = content_hash(prices)
    home = Path(folder) / name
    target = home / digest[:12]
    try:
        home.mkdir(parents=True, exist_ok=True)
        _sweep(home)
        if not (target / MANIFEST).is_file():
            with _aside(home) as aside:
                clean = prices.copy()
                clean.attrs = {}
                (aside / _PRICES).write_bytes(parquet_bytes(clean))
                manifest = new_manifest(clean, digest, aside / _PRICES, arguments, report, completeness)
                (aside / MANIFEST).write_text(
                    json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
                )
                _to_disk(aside / _PRICES, aside / MANIFEST)
                try:
                    aside.rename(target)
                except OSError:
                    # Another process froze the same content meanwhile: its version is as good.
                    if not (target / MANIFEST).is_file():
                        raise
        if make_current or not (home / _CURRENT).is_file():
            _point(home, target.name)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"snapshot {name} cannot be written under {folder}: {reason}") from error
    return Snapshot(name, target, read_manifest(target))


@contextmanager
def _aside(home: Path) -> Iterator[Path]:
    """Folder to write in, gone afterwards unless it was moved into place."""
    aside = Path(mkdtemp(prefix=_PARTIAL, dir=home))
    # mkdtemp keeps others out; a snapshot may be read by whoever may read its folder.
    aside.chmod(0o777 & ~_umask())
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _to_disk(*files: Path) -> None:
    """Wait until files are on the disk, so that a power cut leaves no moved but empty ones."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _point(home: Path, target: str) -> None:
    """Make a version the current one, in one step."""
    with _aside(home) as aside:
        pointer = aside / _CURRENT
        pointer.write_text(target + "\n", encoding="utf-8")
        _to_disk(pointer)
        pointer.replace(home / _CURRENT)


def _sweep(home: Path) -> None:
    """Remove what killed writers left behind, once it is old enough to be nobody's."""
    for path in home.glob(f"{_PARTIAL}*"):
        try:
            abandoned = time.time() - path.stat().st_mtime > _ABANDONED_AFTER
        except OSError:
            continue
        if abandoned:
            shutil.rmtree(path, ignore_errors=True)
