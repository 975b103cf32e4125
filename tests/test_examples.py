"""The examples run as a reader would run them, stay short, and print what they promise; so do those of docstrings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples"
SAYS = {
    "layer": ("planned 3", "raise these forecasts"),
    "custom_predictor": ("Decision-focused", "weights on the last days"),
    "custom_solver": ("distance to PIQP's x", "d Σx / dq"),
}


def test_there_is_an_expectation_for_every_example() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SAYS)


# All in one process: to start one takes longer than most of them.
EXAMPLES = """
import contextlib, io, json, runpy, sys
shown = {}
for name in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(name, run_name="__main__")
    shown[name] = printed.getvalue()
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    """What each example prints."""
    files = sorted(path.name for path in FOLDER.glob("*.py"))
    command = [sys.executable, "-c", EXAMPLES, *files]
    ran = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "Warning" not in ran.stderr
    printed: dict[str, str] = json.loads(ran.stdout)
    return printed


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_and_is_short(name: str, shown: dict[str, str]) -> None:
    file = FOLDER / f"{name}.py"
    assert len(file.read_text(encoding="utf-8").splitlines()) < 60
    assert all(part in shown[file.name] for part in SAYS[name])


# In a process of their own: one of them registers a solver.
DOCTESTS = """
import doctest, importlib, sys
modules = [importlib.import_module(name) for name in sys.argv[1:]]
sys.exit(any(doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed for module in modules))
"""


def test_examples_in_docstrings_print_what_they_show() -> None:
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for package in ("dxpp_core", "portfolio_dfl")
        for file in sorted((ROOT / package).rglob("*.py"))
        if "\n    >>> " in file.read_text(encoding="utf-8")
    ]
    assert len(modules) > 12
    shown = subprocess.run([sys.executable, "-c", DOCTESTS, *modules], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stdout
