"""What a result came from: the code's commit and the versions that decide numbers."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["git_commit", "versions"]

_PACKAGES = ("portfolio-dfl", "torch", "numpy", "pandas", "scipy", "piqp", "lightning", "mlflow", "skfolio")


def git_commit() -> str:
    """Commit of this package's checkout, ``+changes`` where files differ from it; "none" outside one."""
    folder = str(Path(__file__).resolve().parent)
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return "none"
    return f"{commit}+changes" if changed else commit


def versions() -> dict[str, str]:
    """Version of Python and of each package that numbers depend on; "missing" where not installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def _git(folder: str, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
