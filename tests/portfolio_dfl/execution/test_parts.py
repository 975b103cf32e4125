"""Parts by name: found, made, and told apart where something does not fit."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.execution.parts import build_part, find_part, is_own

OURS = {"plain": int}
MODULE = """
class Scaled:
    def __init__(self, scale=1.0):
        self.scale = scale

    def __call__(self, value):
        return self.scale * value


def doubled(value, scale=2.0):
    return scale * value


def maker(*, scale=3.0):
    return Scaled(scale)


def pair(one, other):
    return one + other


class Silent:
    pass


class Failing:
    def __init__(self):
        raise OSError("no such table")


made = Scaled(5.0)
number = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_things.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "own_things", raising=False)


def build(name: str, options: dict[str, Any] | None = None) -> Any:
    full = f"own_things:{name}"
    found = find_part("thing", full, OURS, TrainingError)
    return build_part("thing", full, found, options or {}, TrainingError, takes=["value"])


@pytest.mark.parametrize(
    ("name", "options", "answer"),
    [
        ("Scaled", {}, 1.0),
        ("Scaled", {"scale": 4.0}, 4.0),
        ("doubled", {}, 2.0),
        ("doubled", {"scale": 7.0}, 7.0),
        ("maker", {}, 3.0),
        ("maker", {"scale": 6.0}, 6.0),
        ("made", {}, 5.0),
    ],
)
def test_classes_functions_and_objects_are_parts(name: str, options: dict[str, Any], answer: float) -> None:
    assert build(name, options)(1.0) == answer


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pair", {}, "takes (one, other); a function of (value) is needed"),
        ("doubled", {"speed": 1}, "takes (value, scale=2.0); a function of (value) and the options speed is needed"),
        ("Scaled", {"speed": 1}, "takes (scale=1.0); it was given the options speed"),
        ("made", {"scale": 1}, "is an object, which takes no options, and was given scale"),
        ("number", {}, "is a int; a class or a function of (value) is needed"),
        ("Silent", {}, "makes a Silent without a call(value)"),
        ("Failing", {}, "cannot be made with options {}: no such table"),
        ("Absent", {}, "has no attribute 'Absent'"),
    ],
)
def test_what_does_not_fit_is_named_with_what_is_needed(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=f"^thing 'own_things:{name}'.*{re.escape(message)}"):
        build(name, options)


def test_an_unknown_name_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(TrainingError, match=r"unknown thing 'simple'; use one of plain, or 'package\.module:Name'"):
        find_part("thing", "simple", OURS, TrainingError)


@pytest.mark.parametrize(
    ("name", "own"),
    [("a:B", True), ("a.b:C", True), ("plain", False), ("C:\\prices.csv", False), ("a b:C", False), (":C", False)],
)
def test_own_names_are_told_from_others(name: str, own: bool) -> None:
    assert is_own(name) == own
