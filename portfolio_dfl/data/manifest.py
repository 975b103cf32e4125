"""What a frozen version of prices says about itself, as JSON beside the prices."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from portfolio_dfl.data.flags import PanelReport
from portfolio_dfl.errors import DataError

__all__ = ["MANIFEST", "new_manifest", "read_manifest"]

#: Name of the file.
MANIFEST = "manifest.json"

_FORMAT = 1


def new_manifest(
    prices: pd.DataFrame,
    digest: str,
    file: Path,
    arguments: Mapping[str, str],
    report: PanelReport | None,
    completeness: pd.DataFrame | None,
) -> dict[str, Any]:
    """What a version says about itself.

    Parameters
    ----------
    prices
        Tidy prices, [T, N].
    digest
        Hash of their content.
    file
        Parquet file that holds them.
    arguments
        How they were asked for.
    report, completeness
        Findings, of which the number of each kind is kept, and the completeness table.
    """
    table = {} if completeness is None else _as_texts(completeness)
    findings: dict[str, int] = {}
    for flag in () if report is None else report.flags:
        findings[flag.kind] = findings.get(flag.kind, 0) + 1
    return {
        "format": _FORMAT,
        "sha256": digest,
        "file_sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "arguments": dict(arguments),
        "fetched_at": f"{pd.Timestamp.now(tz='UTC'):%Y-%m-%dT%H:%M:%SZ}",
        "libraries": {"pandas": pd.__version__, "pyarrow": version("pyarrow")},
        "tickers": prices.shape[1],
        "dates": len(prices),
        "first": f"{prices.index[0]:%Y-%m-%d}",
        "last": f"{prices.index[-1]:%Y-%m-%d}",
        "findings": findings,
        "completeness": table,
    }


def _as_texts(completeness: pd.DataFrame) -> dict[str, Any]:
    """Completeness table for JSON, with plain dates."""
    table = completeness.assign(
        first=completeness["first"].dt.strftime("%Y-%m-%d"), last=completeness["last"].dt.strftime("%Y-%m-%d")
    )
    rows: dict[str, Any] = json.loads(table.to_json(orient="index", double_precision=6))
    return rows


def read_manifest(path: Path) -> dict[str, Any]:
    """Manifest in the folder of a version.

    Raises
    ------
    DataError
        No manifest, or one of another format.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path / MANIFEST} cannot be read: fetch the snapshot again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise DataError(f"{path / MANIFEST} is of another format than {_FORMAT}: fetch the snapshot again")
    return manifest
