"""What this machine offers: versions, solvers, Gurobi's licence and its limits, a browser for the dashboard."""

from __future__ import annotations

import ctypes
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass

from portfolio_dfl.execution.provenance import git_commit, versions
from portfolio_dfl.notebook import PrintedResult

__all__ = ["Diagnosis", "diagnose"]

# Gurobi's bundled licence ends at this many variables in a model with a quadratic term.
_BUNDLED_LIMIT = 200


@dataclass(frozen=True)
class Diagnosis(PrintedResult):
    """Findings by topic; prints as text.

    Attributes
    ----------
    versions : dict
        Of Python and the packages that numbers depend on.
    commit : str
        Of this package's checkout.
    cores : int
        Processors this process may use.
    solvers : dict
        By name: "works", or what went wrong on a small problem.
    gurobi : str
        What its licence allows.
    """

    versions: dict[str, str]
    commit: str
    cores: int
    solvers: dict[str, str]
    gurobi: str

    def __str__(self) -> str:
        lines = ["Versions"]
        lines += [f"  {name:<14}{number}" for name, number in self.versions.items()]
        lines += [f"  {'commit':<14}{self.commit}", f"  {'cores':<14}{self.cores}", "", "Solvers"]
        lines += [f"  {name:<14}{finding}" for name, finding in self.solvers.items()]
        lines += ["", "Gurobi", f"  {self.gurobi}"]
        return "\n".join(lines)


def diagnose() -> Diagnosis:
    """Look at this machine; solves one small problem with every solver found."""
    from dxpp_core import available_solvers

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with _banners_dropped():
        solvers = {name: _try_solver(name) for name in available_solvers()}
        gurobi = _gurobi(solvers.get("gurobi", ""))
    return Diagnosis(versions(), git_commit(), cores, solvers, gurobi)


@contextmanager
def _banners_dropped() -> Iterator[None]:
    """Drop what solvers write to standard output, past Python: their names and licences are no finding of ours."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # closed, so that nothing is seen of it anyway
        yield
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        with redirect_stdout(io.StringIO()):
            yield
        ctypes.CDLL(None).fflush(None)  # or what C has buffered would come out later
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def _try_solver(name: str, size: int = 4) -> str:
    """Solve min ½‖x − c‖² on the simplex and compare with the known answer."""
    import torch

    from dxpp_core import QPError, solve_qp

    target = torch.linspace(0.0, 1.0, size, dtype=torch.float64) / size + 0.5 / size
    expected = target + (1.0 - target.sum()) / size
    ones = torch.ones(1, size, dtype=torch.float64)
    zero = torch.zeros(size, dtype=torch.float64)
    eye = torch.eye(size, dtype=torch.float64)
    try:
        solution = solve_qp(eye, -target, A=ones, b=ones[:, 0], lb=zero, solver=name)
    except QPError as error:
        return str(error)
    distance = float((solution.x - expected).abs().max())
    return "works" if distance < 1e-5 else f"answers wrongly, by {distance:.1e}"


def _gurobi(finding: str) -> str:
    if finding != "works":
        return finding or "not found: pip install gurobipy"
    if _try_solver("gurobi", _BUNDLED_LIMIT + 1) == "works":
        return f"no limit met at {_BUNDLED_LIMIT + 1} variables in a quadratic model: a full licence"
    return (
        f"bundled licence: at most {_BUNDLED_LIMIT} variables in a model with a quadratic term, which is a "
        "horizon of 14 for seven assets; use solver auto or piqp beyond, or install a full licence"
    )
