"""The directions of imports in both packages: no circle, none of what must never be; and that this test would see it.

All imports count: at the top of a module, inside a function, and for type checkers alone. A module that only names
another's type is tied to it as well.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dxpp_core", "portfolio_dfl")
FACE = "portfolio_dfl"
#: What ``dxpp_core`` says of itself is public.
PUBLIC_CORE = {"errors", "solvers", "compilation", "threads", "tracing", "reference", "benchmark"}
MOST_ROOMS = 20

#: Source of each module by its name; a package under its own name.
Tree = Mapping[str, str]


@dataclass(frozen=True)
class Arrow:
    """One import: who, and the module, or package of others, that is imported."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


def read_tree() -> dict[str, str]:
    tree = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            tree[name] = file.read_text(encoding="utf-8")
    return tree


def arrows(tree: Tree) -> list[Arrow]:
    """Every import of every module, sorted by module; of a package's name that is a module, that module."""
    packages = {name.rpartition(".")[0] for name in tree} | set(PACKAGES)
    found = []
    for source, text in tree.items():
        targets: set[str] = set()
        for base, names in _imports(source, text, source in packages):
            inside = {f"{base}.{name}" for name in names}
            targets |= inside & tree.keys()
            if not names or not inside <= tree.keys():
                targets.add(base)
        found += [Arrow(source, target) for target in sorted(targets) if target != source]
    return found


@cache  # trees differ in one module
def _imports(source: str, text: str, is_package: bool) -> list[tuple[str, list[str]]]:
    """What a module imports: a module each, and the names taken from it."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [(alias.name, list[str]()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(source, node, is_package=is_package)
            found.append((base, [alias.name for alias in node.names]))
    return found


def _base(source: str, node: ast.ImportFrom, *, is_package: bool) -> str:
    if not node.level:
        return str(node.module)
    parts = source.split(".")
    above = parts[: len(parts) - node.level + is_package]
    return ".".join([*above, *([node.module] if node.module else [])])


def within(module: str, *rooms: str) -> bool:
    """Whether a module is one of these or lies in one of them."""
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def ours(*rooms: str) -> tuple[str, ...]:
    return tuple(f"portfolio_dfl.{room}" for room in rooms)


#: What must never be, in the words of the plan of the house.
NEVER: dict[str, Callable[[str, str], bool]] = {
    "dxpp_core -> portfolio_dfl": lambda a, b: within(a, "dxpp_core") and within(b, "portfolio_dfl"),
    "dxpp_core -> lightning or mlflow": lambda a, b: within(a, "dxpp_core") and within(b, "lightning", "mlflow"),
    "the application -> the core's private modules": lambda a, b: (
        within(a, "portfolio_dfl")
        and within(b, "dxpp_core")
        and b not in {"dxpp_core", *(f"dxpp_core.{name}" for name in PUBLIC_CORE)}
    ),
    "data -> training": lambda a, b: within(a, *ours("data")) and within(b, *ours("training")),
    "backtest -> training": lambda a, b: within(a, *ours("backtest")) and within(b, *ours("training")),
    "allocation -> tracking": lambda a, b: within(a, *ours("allocation")) and within(b, *ours("tracking")),
    # The evidence composes studies from files of configurations, as the command line does.
    "anything but what composes studies -> config": lambda a, b: (
        within(b, *ours("config"))
        and a != FACE
        and not within(a, *ours("config", "study", "strategies", "cli", "tasks.evidence"))
    ),
    "anything but cli -> tasks": lambda a, b: within(b, *ours("tasks")) and not within(a, *ours("tasks", "cli")),
    "anything but cli and tasks -> study": lambda a, b: (
        within(b, *ours("study")) and a != FACE and not within(a, *ours("study", "cli", "tasks"))
    ),
    "anything -> the face": lambda a, b: within(a, "portfolio_dfl") and b == FACE,
    "mlflow outside tracking": lambda a, b: within(b, "mlflow") and not within(a, *ours("tracking")),
    "yfinance outside data.sources": lambda a, b: within(b, "yfinance") and not within(a, *ours("data.sources")),
    "gurobipy outside solvers.gurobi": lambda a, b: within(b, "gurobipy") and a != "dxpp_core.solvers.gurobi",
    "typer outside cli": lambda a, b: within(b, "typer") and not within(a, *ours("cli")),
}

#: For each rule, imports that break it: in which module, and what it would import.
FORBIDDEN = [
    ("dxpp_core -> portfolio_dfl", "dxpp_core.layer", "portfolio_dfl.errors"),
    ("dxpp_core -> portfolio_dfl", "dxpp_core.kernels", "portfolio_dfl.allocation.kernels"),
    ("dxpp_core -> lightning or mlflow", "dxpp_core.benchmark", "lightning.pytorch"),
    ("dxpp_core -> lightning or mlflow", "dxpp_core.autograd", "mlflow"),
    ("the application -> the core's private modules", "portfolio_dfl.allocation.native", "dxpp_core.kkt.active_set"),
    ("the application -> the core's private modules", "portfolio_dfl.tasks.peers", "dxpp_core.solvers.base"),
    ("data -> training", "portfolio_dfl.data.panel", "portfolio_dfl.training.samples"),
    ("backtest -> training", "portfolio_dfl.backtest.policy", "portfolio_dfl.training"),
    ("allocation -> tracking", "portfolio_dfl.allocation.limits", "portfolio_dfl.tracking.mlflow_store"),
    (
        "anything but what composes studies -> config",
        "portfolio_dfl.report.page",
        "portfolio_dfl.config.study",
    ),
    (
        "anything but what composes studies -> config",
        "portfolio_dfl.tracking.model",
        "portfolio_dfl.config",
    ),
    (
        "anything but what composes studies -> config",
        "portfolio_dfl.tasks.catalogue",
        "portfolio_dfl.config.names",
    ),
    ("anything but cli -> tasks", "portfolio_dfl.study.run", "portfolio_dfl.tasks.records"),
    ("anything but cli -> tasks", "portfolio_dfl.execution.doctor", "portfolio_dfl.tasks"),
    ("anything but cli and tasks -> study", "portfolio_dfl.tracking.model", "portfolio_dfl.study.folder"),
    ("anything but cli and tasks -> study", "portfolio_dfl.strategies.saved", "portfolio_dfl.study"),
    ("anything -> the face", "portfolio_dfl.study.live", "portfolio_dfl"),
    ("mlflow outside tracking", "portfolio_dfl.study.stages", "mlflow.tracking"),
    ("mlflow outside tracking", "portfolio_dfl.cli", "mlflow"),
    ("yfinance outside data.sources", "portfolio_dfl.data.tidy", "yfinance"),
    ("gurobipy outside solvers.gurobi", "dxpp_core.solvers.piqp", "gurobipy"),
    ("gurobipy outside solvers.gurobi", "portfolio_dfl.execution.doctor", "gurobipy"),
    ("typer outside cli", "portfolio_dfl.tasks.catalogue", "typer"),
]

#: Ways to write an import.
SPELLINGS = {
    "at the top": "import {target}\n",
    "of names": "from {target} import anything\n",
    "inside a function": "def use():\n    from {target} import anything\n",
    "for type checkers": "if TYPE_CHECKING:\n    from {target} import anything\n",
}


def broken(tree: Tree) -> Iterator[tuple[str, Arrow]]:
    """Every import that must not be, with the rule that it breaks."""
    for arrow in arrows(tree):
        for rule, forbids in NEVER.items():
            if forbids(arrow.source, arrow.target):
                yield rule, arrow


def circles(tree: Tree) -> list[list[str]]:
    """Modules that import each other, a list for every circle (strongly connected set) of more than one."""
    after: dict[str, list[str]] = {name: [] for name in tree}
    for arrow in arrows(tree):
        if arrow.target in tree:
            after[arrow.source].append(arrow.target)
    reach = {name: _reached(name, after) for name in tree}
    found = {frozenset({name} | {other for other in reach[name] if name in reach[other]}) for name in tree}
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def _reached(start: str, after: Mapping[str, list[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(after[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += after[name]
    return seen


def room(module: str) -> str:
    """The room of the top level that a module lies in: the core, or a file or folder of the application."""
    return "dxpp_core" if within(module, "dxpp_core") else ".".join(module.split(".")[:2])


def folders(tree: Tree) -> dict[str, str]:
    """The same imports between rooms of the top level, as a tree of one module a room."""
    lines: dict[str, str] = {room(name): "" for name in tree}
    for arrow in arrows(tree):
        if arrow.target in tree and arrow.source != FACE and room(arrow.source) != room(arrow.target):
            lines[room(arrow.source)] += f"import {room(arrow.target)}\n"
    return lines


@pytest.fixture(scope="module")
def tree() -> dict[str, str]:
    return read_tree()


def test_no_modules_import_each_other_in_a_circle(tree: Tree) -> None:
    assert circles(tree) == []


def test_no_rooms_of_the_top_level_import_each_other_in_a_circle(tree: Tree) -> None:
    assert circles(folders(tree)) == []


def test_nothing_imports_what_it_must_never_import(tree: Tree) -> None:
    assert [f"{rule}: {arrow}" for rule, arrow in broken(tree)] == []


def test_the_top_level_has_few_rooms(tree: Tree) -> None:
    assert len({room(name) for name in tree}) <= MOST_ROOMS


def test_mlflows_own_names_stand_in_tracking_alone(tree: Tree) -> None:
    elsewhere = [
        f"{name}: {node.value}"
        for name, text in tree.items()
        if not within(name, *ours("tracking"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("mlflow.")
    ]
    assert elsewhere == []


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(("rule", "source", "target"), FORBIDDEN, ids=lambda value: str(value).replace(" ", "-"))
def test_a_forbidden_import_is_seen(tree: Tree, rule: str, source: str, target: str, spelling: str) -> None:
    planted = {**tree, source: tree[source] + SPELLINGS[spelling].format(target=target)}
    assert (rule, Arrow(source, target)) in list(broken(planted))


def test_every_rule_is_shown_to_see_what_it_forbids() -> None:
    assert {rule for rule, _, _ in FORBIDDEN} == set(NEVER)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("portfolio_dfl.training.fitting", "portfolio_dfl.training.window"),
        ("portfolio_dfl.errors", "portfolio_dfl.data.panel"),
        ("dxpp_core.errors", "dxpp_core.layer"),
    ],
)
def test_a_circle_is_seen(tree: Tree, source: str, target: str, spelling: str) -> None:
    planted = {**tree, source: tree[source] + SPELLINGS[spelling].format(target=target)}
    assert any({source, target} <= set(circle) for circle in circles(planted))


def test_a_circle_of_rooms_is_seen_where_no_modules_form_one(tree: Tree) -> None:
    planted = {
        **tree,
        "portfolio_dfl.data.new": "import portfolio_dfl.report.new\n",
        "portfolio_dfl.report.new": "",
        "portfolio_dfl.report.other": "import portfolio_dfl.data.panel\n",
    }
    assert circles(planted) == []
    assert any({"portfolio_dfl.data", "portfolio_dfl.report"} <= set(circle) for circle in circles(folders(planted)))


def test_a_relative_import_is_followed() -> None:
    tree = {
        "dxpp_core": "from .layer import QPLayer\n",
        "dxpp_core.layer": "from .kkt.penalty import x\n",
        "dxpp_core.kkt": "",
        "dxpp_core.kkt.penalty": "from ..layer import y\nfrom . import other\n",
        "dxpp_core.kkt.other": "",
    }
    assert circles(tree) == [["dxpp_core.kkt.penalty", "dxpp_core.layer"]]
    assert Arrow("dxpp_core.kkt.penalty", "dxpp_core.kkt.other") in arrows(tree)
