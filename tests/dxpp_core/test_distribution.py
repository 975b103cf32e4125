"""The layer as a distribution of its own: all of its packages, and requirements as of the whole project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def name_of(requirement: str) -> str:
    return re.split(r"[<>=!~\[ ]", requirement)[0]


def test_the_core_alone_has_all_its_packages_and_the_requirements_of_the_whole() -> None:
    alone = tomllib.loads((ROOT / "dxpp_core" / "pyproject.toml").read_text(encoding="utf-8"))
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "dxpp_core").rglob("__init__.py")}
    assert set(alone["tool"]["setuptools"]["packages"]) == {name for name in found if ".build" not in name}
    assert alone["project"]["version"] == whole["project"]["version"]
    asked = {name_of(requirement): requirement for requirement in whole["project"]["dependencies"]}
    optional = alone["project"]["optional-dependencies"]["solvers"]
    for requirement in (*alone["project"]["dependencies"], *optional):
        assert asked[name_of(requirement)] == requirement
    assert "lightning" not in map(name_of, alone["project"]["dependencies"])
