"""The tasks by name, and how options typed on the command line become their arguments."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.wording.findings import explain_findings

if TYPE_CHECKING:
    from portfolio_dfl.tasks.records import TaskResult

__all__ = ["TASKS", "run_task"]

#: Name, module and function, and arguments that the name stands for.
TASKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gradient-accuracy": ("gradient_accuracy", "gradient_accuracy", {}),
    "projection-simplex": ("projection", "projection", {"kind": "simplex"}),
    "projection-chain": ("projection", "projection", {"kind": "chain"}),
    "runtime": ("runtime", "runtime", {}),
    "epoch": ("epoch", "epoch", {}),
    "sudoku": ("sudoku", "sudoku", {}),
    "smoothing": ("smoothing", "smoothing", {}),
    "smoothed-training": ("smoothed_training", "smoothed_training", {}),
    "factor-risk": ("factor_risk", "factor_risk", {}),
    "objectives": ("objectives", "objectives", {}),
    "universe": ("universe", "universe", {}),
    "mechanism": ("mechanism", "mechanism", {}),
    "evidence": ("evidence", "evidence", {}),
}


def run_task(
    name: str,
    settings: Mapping[str, Any] | None = None,
    *,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Run one task.

    Parameters
    ----------
    name : str
        One of :data:`TASKS`.
    settings : mapping, optional
        Arguments of the task's function by name.
    reduced : bool
        Sizes for a quick look.
    folder : path
        Folder of runs.

    Raises
    ------
    ConfigError
        If there is no such task or argument, or a value is not of its kind.
    """
    from pydantic import ValidationError, validate_call

    name = name.replace("_", "-")
    if name not in TASKS:
        raise ConfigError(f"no task is called {name!r}; there are {', '.join(TASKS)}")
    module, attribute, fixed = TASKS[name]
    function: Callable[..., TaskResult] = getattr(import_module(f"portfolio_dfl.tasks.{module}"), attribute)
    known = [key for key in inspect.signature(function).parameters if key not in {"folder", "reduced", *fixed}]
    for key in settings or {}:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"the nearest is {near[0]}" if near else f"it has {', '.join(known)}"
            raise ConfigError(f"task {name} has no setting {key!r}; {hint}")
    try:
        return validate_call(function)(**fixed, **(settings or {}), reduced=reduced, folder=folder)
    except ValidationError as error:
        clauses = explain_findings(error.errors(), settings or {})
        raise ConfigError(f"task {name}: {'; '.join(clauses)}") from error
    except MemoryError as error:
        raise ConfigError(f"task {name} does not fit in memory: {error}; use smaller sizes") from error
