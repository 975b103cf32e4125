"""The face of the package: every public name is there, and none is paid for before it is used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import portfolio_dfl


@pytest.mark.parametrize("name", portfolio_dfl.__all__)
def test_a_public_name_resolves_and_is_listed(name: str) -> None:
    assert getattr(portfolio_dfl, name) is not None
    assert name in dir(portfolio_dfl)


def test_type_checkers_are_told_of_every_name_where_it_is_found() -> None:
    """What stands under ``TYPE_CHECKING`` is what is imported when it is asked for."""
    tree = ast.parse(Path(str(portfolio_dfl.__file__)).read_text(encoding="utf-8"))
    told = {
        alias.asname or alias.name: getattr(importlib.import_module(node.module), alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
    assert {*told, "STRATEGIES", "__version__"} == set(portfolio_dfl.__all__)
    for name, value in told.items():
        assert getattr(portfolio_dfl, name) is value


def test_the_version_is_the_installed_one() -> None:
    assert portfolio_dfl.__version__ == version("portfolio-dfl")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'run_studdy'"):
        portfolio_dfl.run_studdy  # noqa: B018  the access is what is tested


def test_listing_the_names_loads_nothing_heavy() -> None:
    heavy = "torch numpy pandas pydantic scipy lightning mlflow skfolio sklearn plotly typer yaml"
    shown = f"import sys, portfolio_dfl; dir(portfolio_dfl); print([n for n in '{heavy}'.split() if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["config", "data", "report", "study", "tasks", "training"])
def test_no_public_name_hides_a_package(package: str) -> None:
    module = importlib.import_module(f"portfolio_dfl.{package}")
    assert getattr(portfolio_dfl, package) is module
