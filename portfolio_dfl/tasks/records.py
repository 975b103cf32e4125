"""What a task leaves behind: a table in the paper's layout, a CSV file, figures and an MLflow run."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.execution.provenance import git_commit, versions
from portfolio_dfl.notebook import PrintedResult
from portfolio_dfl.tracking.mlflow_store import open_store, tracked_run
from portfolio_dfl.tracking.places import written

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["TaskResult", "describe_machine", "paper_layout", "require_place", "save_task"]

_EXPERIMENT = "tasks"


@dataclass(frozen=True)
class TaskResult(PrintedResult):
    """Outcome of one task; ``str(result)`` is what the command line prints.

    Attributes
    ----------
    name : str
        Name of the task, which is also that of its folder.
    title : str
        What was measured, in one line.
    rows : DataFrame
        Every figure, one row each, as the CSV file holds them.
    table : str
        The table in the paper's layout, the paper's own figures below ours.
    figures : mapping of str to plotly figures
    parameters : mapping
        Sizes and settings of the run.
    metrics : mapping of str to float
        The few numbers that sum it up.
    notes : sequence of str
        What a reader of the table has to know.
    machine : str
        Where it was measured.
    folder : Path or None
        Where it was saved.
    """

    name: str
    title: str
    rows: pd.DataFrame
    table: str
    figures: Mapping[str, go.Figure] = field(default_factory=dict)
    parameters: Mapping[str, object] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    machine: str = ""
    folder: Path | None = None

    def __str__(self) -> str:
        lines = [self.title, "", self.table, "", *self.notes, f"machine: {self.machine}"]
        return "\n".join(lines if self.folder is None else [*lines, f"saved in {self.folder}"])


def describe_machine() -> str:
    """Processor, cores, load, system and library versions, in one line."""
    found = versions()
    libraries = ", ".join(f"{name} {found[name]}" for name in ("python", "torch", "numpy", "scipy", "piqp"))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{_processor()}, {os.cpu_count()} cores (load {load:.1f}), {platform.system()}, {libraries}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def paper_layout(
    rows: pd.DataFrame, lines: Sequence[str], column: str, value: str, *, form: str = "{:.3g}", gap: str = "–"
) -> str:
    """Text table with one line for each combination of ``lines`` and one column for each value of ``column``.

    Parameters
    ----------
    rows : DataFrame
        One figure a row; lines and columns appear in the order in which they come first.
    form : str
        How a number is written; NaN and absent combinations become ``gap``.
    """
    heads = list(dict.fromkeys(rows[column]))
    cells = [[*lines, *(str(head) for head in heads)]]
    figures = {
        (*key[:-1], key[-1]): number
        for *key, number in rows[[*lines, column, value]].itertuples(index=False, name=None)
    }
    before: tuple[object, ...] = ()
    for key in dict.fromkeys(rows[list(lines)].itertuples(index=False, name=None)):
        shown = [
            "" if key[: i + 1] == before[: i + 1] and i + 1 < len(key) else str(part) for i, part in enumerate(key)
        ]
        numbers = [figures.get((*key, head), float("nan")) for head in heads]
        cells.append([*shown, *(gap if number != number else form.format(number) for number in numbers)])
        before = key
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    text = [
        "  ".join(
            cell.ljust(width) if i < len(lines) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([text[0], "─" * max(map(len, text)), *text[1:]])


def require_place(name: str, root: str | os.PathLike[str]) -> None:
    """Try the folder and the MLflow store of a task's results: what could not be kept need not be measured.

    Parameters
    ----------
    name : str
        Name of the task.
    root : path
        Folder of runs.

    Raises
    ------
    TrackingError
        If the folder takes no files, or the store cannot be opened.
    """
    folder = Path(root) / "tasks" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise TrackingError(
            f"{folder} cannot be written to: {error.strerror}; choose another folder of runs"
        ) from error
    open_store(root, experiment=_EXPERIMENT)


def save_task(result: TaskResult, root: str | os.PathLike[str]) -> TaskResult:
    """Write a result under ``root/tasks/NAME`` and record it in MLflow.

    Parameters
    ----------
    result : TaskResult
    root : path
        Folder of runs; its MLflow store is that of the studies.

    Returns
    -------
    TaskResult
        The same, with the folder it was saved in.

    Raises
    ------
    TrackingError
        If the MLflow store does not take the run.
    """
    folder = Path(root) / "tasks" / result.name
    result = replace(result, folder=folder)
    with written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        result.rows.to_csv(folder / f"{result.name}.csv", index=False)
        (folder / f"{result.name}.txt").write_text(f"{result}\n", encoding="utf-8")
        (folder / "parameters.json").write_text(json.dumps(dict(result.parameters), indent=2, default=str) + "\n")
        for name, figure in result.figures.items():
            figure.write_html(folder / f"{name}.html", include_plotlyjs=True, full_html=True)
            _write_png(figure, folder / f"{name}.png")
    store = open_store(root, experiment=_EXPERIMENT)
    tags = {"task": result.name, "machine": result.machine, "commit": git_commit()}
    with tracked_run(store, result.name, tags=tags) as run:
        run.log_params({**result.parameters, **{f"version.{name}": text for name, text in versions().items()}})
        run.log_metrics({_metric_name(name): value for name, value in result.metrics.items()})
        run.log_folder(folder, "results")
    return result


def _metric_name(name: str) -> str:
    """The name in the characters that MLflow takes."""
    return re.sub(r"[^\w\-. :/]", "", name.replace("×", "x"), flags=re.ASCII)


def _write_png(figure: go.Figure, path: Path) -> None:
    """A picture beside the page, where kaleido and a browser to draw it are installed."""
    if find_spec("kaleido") is None:
        return
    from kaleido.errors import ChromeNotFoundError

    try:
        figure.write_image(path, scale=2)
    except RuntimeError as error:  # what plotly makes of a missing browser
        if not isinstance(error.__context__, ChromeNotFoundError):
            raise
