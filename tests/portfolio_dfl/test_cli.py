"""The command line as a user meets it: quick help, one line an error, exit code 2."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

VERBS = [[], ["run"], ["config"]]


def portfolio_dfl(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "portfolio_dfl.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=120)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_appears_within_a_second(verb: list[str]) -> None:
    times = []
    for _ in range(3):  # the best of three: a busy machine is not the program's fault
        begin = time.perf_counter()
        shown = portfolio_dfl(*verb, "--help")
        times.append(time.perf_counter() - begin)
        assert shown.returncode == 0
        assert "Usage" in shown.stdout
        if times[-1] < 1.0:
            break
    assert min(times) < 1.0


def test_config_prints_yaml_that_run_would_read() -> None:
    shown = portfolio_dfl("config", "--set", "training.epochs=3")
    assert yaml.safe_load(shown.stdout)["training"]["epochs"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.yaml"], "no configuration file absent.yaml"),
        (["run", "--set", "training.epoch=1"], "the nearest is training.epochs"),
        (["run", "--set", "backtest.start=2020-02-31"], "backtest.start"),
    ],
)
def test_bad_input_gives_one_line_and_exit_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    shown = portfolio_dfl(*arguments, cwd=tmp_path)
    assert shown.returncode == 2
    assert message in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
    assert "Traceback" not in shown.stderr
