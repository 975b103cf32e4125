"""Digests kept beside files, by which damage is noticed when they are read."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["SUMS", "digest", "sum_line"]

#: File of digests, in the format of ``sha256sum``.
SUMS = "SHA256SUMS"


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sum_line(folder: Path, name: str) -> str:
    """The line of one of a folder's files in its file of digests."""
    return f"{digest((folder / name).read_bytes())}  {name}\n"
