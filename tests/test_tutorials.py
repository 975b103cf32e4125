"""The tutorials run as a reader would run them, and print what their pages show."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")


@pytest.fixture(scope="module")
def cells() -> ModuleType:
    """How a script is read: what the site is built with."""
    spec = importlib.util.spec_from_file_location("cells", ROOT / "docs" / "cells.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cells"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def words(text: str) -> list[str]:
    """Printed text without its numbers, and without how it is set."""
    return _NUMBER.sub("#", text).split()


def test_there_are_tutorials() -> None:
    assert {path.stem for path in TUTORIALS} >= {"first_study", "own_data", "own_parts", "qp_layer", "tomorrow"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tutorials as they are after a run, one after the other in one process."""
    folder = tmp_path_factory.mktemp("tutorials")
    copies = [Path(shutil.copy(script, folder)) for script in TUTORIALS]
    command = [sys.executable, str(ROOT / "docs" / "cells.py"), *map(str, copies)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("script", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_prints_what_its_page_shows(script: Path, cells: ModuleType, ran: Path) -> None:
    shown, printed = (cells.read_cells(path.read_text(encoding="utf-8")) for path in (script, ran / script.name))
    pairs = [(one, other) for one, other in zip(shown, printed, strict=True) if one.printed]
    assert pairs
    for one, other in pairs:
        if "about" in one.kind:
            assert words(one.content) == words(other.content)
        else:
            assert one.content == other.content


def test_a_script_is_read_and_written_alike(cells: ModuleType) -> None:
    script = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nprint(1)\n\n# %% [output]\n# 1\n"
    assert cells.as_script(cells.read_cells(script)) == script
    page = "# Title\n\nText.\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    assert cells.as_page(cells.read_cells(script)) == page
