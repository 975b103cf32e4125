"""Variables that libraries take for numbers and that are none: an error of ours, before work starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from portfolio_dfl.allocation import MultiPeriodMeanVariance
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.execution.environment import require_readable_environment
from portfolio_dfl.execution.fan_out import fan_out

_MALFORMED = [
    ("RANK", "abc"),
    ("RANK", "1.5"),
    ("LOCAL_RANK", ""),
    ("SLURM_PROCID", "first"),
    ("JSM_NAMESPACE_RANK", "-"),
    ("NUMBA_NUM_THREADS", "abc"),
    ("NUMBA_NUM_THREADS", "0"),
    ("NUMBA_NUM_THREADS", "-1"),
    ("LOKY_MAX_CPU_COUNT", "abc"),
    ("LOKY_MAX_DEPTH", "deep"),
]


@pytest.mark.parametrize(("name", "value"), _MALFORMED)
def test_a_variable_that_is_no_number_is_refused_with_its_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=rf"variable {name} is '{value}'; it must be a whole number.*unset it"):
        MultiPeriodMeanVariance(2, 2)
    with pytest.raises(ConfigError, match=name):
        list(fan_out(abs, [1, -2], names=["one", "two"], backend="loky", workers=2))


def test_numbers_and_what_is_left_empty_for_numba_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in [("RANK", "3"), ("LOCAL_RANK", " 1 "), ("NUMBA_NUM_THREADS", ""), ("LOKY_MAX_CPU_COUNT", "1")]:
        monkeypatch.setenv(name, value)
    require_readable_environment()
    weights = MultiPeriodMeanVariance(2, 1)(torch.zeros(1, 1, 2), torch.eye(2), torch.tensor([0.5, 0.5]))
    assert torch.allclose(weights, torch.full((1, 1, 2), 0.5))


_IMPORTS = """
try:
    import portfolio_dfl.{module}
except ValueError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("name", "value", "module"),
    [
        ("RANK", "abc", "training.trainer"),
        ("LOCAL_RANK", "", "tasks.sudoku_layer"),
        ("LOKY_MAX_DEPTH", "x", "training"),
    ],
)
def test_a_library_that_reads_it_when_imported_does_not_come_to_it(name: str, value: str, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), name: value},
    )
    assert done.stdout.startswith(f"ConfigError the environment variable {name} is {value!r}")


def test_the_solver_of_quadratic_programs_says_so_too() -> None:
    solve = "import torch, dxpp_core; eye = torch.eye(2).double(); dxpp_core.solve_qp(eye, eye[0])"
    done = subprocess.run(
        [sys.executable, "-c", solve],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_NUM_THREADS": "0"},
    )
    assert (
        "QPError: Numba: Number of threads specified must be > 0.  Correct or unset the environment variable"
        in done.stderr
    )
