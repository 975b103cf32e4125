"""Tutorials as scripts of cells: text in comments, code, and what the code printed; as a page, and run again.

A cell begins with ``# %%``. What stands behind it says what it holds: nothing for code, ``[markdown]`` for text, and
``[output]`` for what the code before it printed; of ``[output about]`` the numbers differ from machine to machine.
``python docs/cells.py FILE ...`` runs scripts in a folder of their own and writes down what they print.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["CODE", "Cell", "as_page", "as_script", "read_cells", "run_cells"]

CODE, TEXT = "", "[markdown]"
_MARK = re.compile(r"^# %%(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """One cell: its kind as the mark says it, and its content without comment signs."""

    kind: str
    content: str

    @property
    def printed(self) -> bool:
        """Whether it holds what code printed."""
        return self.kind.startswith("[output")


def read_cells(script: str) -> list[Cell]:
    """The cells of a script; what stands before the first is not shown."""
    _, *parts = _MARK.split(script)
    cells = []
    for mark, body in zip(parts[::2], parts[1::2], strict=True):
        kind, content = mark.strip(), body.strip("\n").rstrip()
        if kind != CODE:
            content = re.sub(r"^# ?", "", content, flags=re.MULTILINE)
        cells.append(Cell(kind, content))
    return cells


def as_script(cells: list[Cell]) -> str:
    """The script that cells are read from."""
    parts = []
    for cell in cells:
        lines = cell.content.splitlines()
        if cell.kind != CODE:
            lines = [f"# {line}".rstrip() for line in lines]
        parts.append("\n".join([f"# %% {cell.kind}".rstrip(), *lines]))
    return "\n\n".join(parts) + "\n"


def as_page(cells: list[Cell]) -> str:
    """The cells as Markdown."""
    parts = []
    for cell in cells:
        if cell.kind == TEXT:
            parts.append(cell.content)
        else:
            parts.append(f"```{'text' if cell.printed else 'python'}\n{cell.content}\n```")
    return "\n\n".join(parts) + "\n"


def run_cells(cells: list[Cell], name: str = "cells") -> list[Cell]:
    """Run the code from top to bottom in the working directory; what was printed is in the cells of output."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed = io.StringIO()
    found = []
    for cell in cells:
        if cell.kind == CODE:
            with contextlib.redirect_stdout(printed):
                exec(compile(cell.content, f"<{name}>", "exec"), names)
        elif cell.printed:
            cell = replace(
                cell, content="\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())
            )
            printed = io.StringIO()
        found.append(cell)
    return found


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, which is nobody's working directory
    for file in [Path(name).resolve() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            ran = run_cells(read_cells(file.read_text(encoding="utf-8")), file.stem)
            file.write_text(as_script(ran), encoding="utf-8")
            os.chdir(file.parent)
