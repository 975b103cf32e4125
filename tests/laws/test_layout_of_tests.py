"""Tests lie as the packages do, and see of them what a user sees."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
PACKAGES = ("dxpp_core", "portfolio_dfl")
#: Documented names of others: what PyTorch asks sparse tensors for, and `os._exit`.
DOCUMENTED = {"_nnz", "_values", "_indices", "_exit"}


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_tests_is_one_of_the_package(package: str) -> None:
    folders = {file.parent.relative_to(ROOT / "tests") for file in FILES if package in file.parts}
    assert Path(package) in folders
    assert [folder for folder in sorted(folders) if not (ROOT / folder / "__init__.py").is_file()] == []


def reaches_inside(node: ast.AST) -> bool:
    """Whether a private name is imported, patched or asked for; a class's own and PyTorch's are no business of ours."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=_):
            return False
        case ast.Attribute(attr=name):
            return private(name) and name not in DOCUMENTED
        case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] in PACKAGES:
            return any(map(private, [*module.split("."), *(alias.name for alias in names)]))
        case ast.Constant(value=str(text)) if text.split(".")[0] in PACKAGES and " " not in text:
            return any(map(private, text.split(".")[1:]))
    return False


@pytest.mark.parametrize(
    "planted",
    [
        "from dxpp_core.layer import _solve",
        "patch('portfolio_dfl.risk._CHUNK', 1)",
        "found._call.solved",
        "solve(x)._y",
    ],
)
def test_a_private_name_is_noticed(planted: str) -> None:
    assert any(map(reaches_inside, ast.walk(ast.parse(planted))))


def test_no_test_reaches_for_private_names_or_edits_where_modules_are_found() -> None:
    found = []
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        found += [f"{file.name}: {ast.unparse(node)}" for node in ast.walk(ast.parse(text)) if reaches_inside(node)]
        found += [f"{file.name}: sys.path" for edit in ("insert", "append", "extend") if f"sys.path.{edit}(" in text]
    assert found == []
