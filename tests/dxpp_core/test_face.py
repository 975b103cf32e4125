"""What ``import dxpp_core`` shows: the public names, each found when it is asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path

import pytest

import dxpp_core
from dxpp_core import benchmark, compilation, errors, reference, solvers, threads, tracing

_PUBLIC = [dxpp_core, benchmark, compilation, errors, reference, solvers, threads, tracing]


@pytest.mark.parametrize("module", _PUBLIC)
def test_every_public_name_is_there_and_listed(module: object) -> None:
    for name in module.__all__:
        assert getattr(module, name) is not None, name
    assert set(module.__all__) <= set(dir(module))


def test_a_solver_needs_public_names_only() -> None:
    for name in ("RawSolution", "Solver", "SolverProblem", "Status", "find_solver", "register_solver"):
        assert getattr(dxpp_core, name) is getattr(solvers, name)
    assert dxpp_core.available_solvers is solvers.available


def test_every_error_is_public() -> None:
    assert set(errors.__all__) <= set(dxpp_core.__all__)


def test_the_version_is_that_of_the_metadata() -> None:
    assert dxpp_core.__version__ == version("portfolio-dfl")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'dxpp_core' has no attribute 'solve'"):
        attrgetter("solve")(dxpp_core)


def test_where_nobody_installed_it_the_version_is_unknown_and_imports_bring_no_torch() -> None:
    code = """
import importlib.metadata, sys
importlib.metadata.MetadataPathFinder.find_distributions = classmethod(lambda *_: iter(()))
import dxpp_core
print(dxpp_core.__version__, "torch" in sys.modules, "numba" in sys.modules, "scipy" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["unknown", "False", "False", "False"]


def test_the_application_uses_public_modules_only() -> None:
    public = {module.__name__ for module in _PUBLIC}
    application = Path(dxpp_core.__file__).parents[1] / "portfolio_dfl"
    imported = set()
    for path in application.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported |= {name for name in names if name and name.split(".")[0] == "dxpp_core"}
    assert len(imported) > 2
    assert imported <= public
