"""The README's code does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import torch

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    re.sub(r"^  ", "", block, flags=re.MULTILINE) for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL)
]


def test_the_fifteen_lines_run() -> None:
    names: dict[str, object] = {}
    exec(BLOCKS[0], names)
    weights, forecast, held = names["weights"], names["forecast"], names["held"]
    assert isinstance(weights, torch.Tensor)
    assert isinstance(forecast, torch.Tensor)
    assert isinstance(held, torch.Tensor)
    assert float((weights[0, 0] - held[0]).abs().sum()) <= 0.2 + 1e-9
    assert forecast.grad is not None
    assert float(forecast.grad.abs().max()) > 0.0


def test_the_smoothed_gradient_points_away_from_the_vertex() -> None:
    from dxpp_core import solve_qp

    names: dict[str, object] = {"torch": torch, "solve_qp": solve_qp}
    block = next(block for block in BLOCKS if "delta=0.5" in block)
    last = block.strip().splitlines()[-1].split("#")[0]
    exec(block.replace(last, f"found = {last}"), names)
    (smooth,) = names["found"]
    assert float(smooth[0]) < 0.0 < float(smooth[1])


def test_a_solver_registered_as_the_readme_shows() -> None:
    from dxpp_core import solve_qp
    from dxpp_core.solvers import SolverProblem, find_solver

    def my_solver(problem: SolverProblem, tolerance: float) -> tuple[object, ...]:
        raw = find_solver("piqp")(problem, tolerance)
        return raw.x, raw.y, raw.z, raw.z_box

    exec(next(block for block in BLOCKS if "register_solver" in block), {"my_solver": my_solver})
    x = solve_qp(torch.eye(2, dtype=torch.float64), -torch.ones(2, dtype=torch.float64), solver="mine").x
    torch.testing.assert_close(x, torch.ones(2, dtype=torch.float64))


def test_the_yaml_of_any_strategy_is_a_study() -> None:
    from portfolio_dfl import StudyConfig

    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    study = StudyConfig.from_yaml(text)
    assert set(study.plain()["features"]) == {"momentum", "macro"}
    assert study.backtest.strategies[1] == "my_parts:MyPolicy"
    assert study.training.loss == "my_parts:MyLoss"
    assert StudyConfig.from_yaml(study.to_yaml()) == study


def test_studies_and_options_that_are_named_exist() -> None:
    from typer.main import get_command

    from portfolio_dfl.cli import app

    root = Path(__file__).resolve().parents[1]
    named = set(re.findall(r"[a-z0-9_]+\.yaml", README)) - {"study.yaml"}
    assert {"quickstart.yaml", "weekly.yaml", "long_short.yaml"} <= named
    assert named <= {path.name for path in (root / "configs").iterdir()}
    commands = get_command(app).commands  # type: ignore[attr-defined]
    options = {option for parameter in commands["predict"].params for option in parameter.opts}
    assert {"--holdings", "--lot", "--format", "--output", "--prices"} <= options
