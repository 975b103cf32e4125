"""The command line as a user meets it: quick help, one line an error, exit code 2."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from portfolio_dfl.cli import main

VERBS = [
    [],
    *([verb] for verb in ("run", "train", "backtest", "compare", "predict", "report", "resume", "sweep", "ui")),
]
VERBS += [["doctor"], ["config"], ["data"], *(["data", verb] for verb in ("fetch", "check", "show", "list"))]


def portfolio_dfl(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "portfolio_dfl.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=120)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_appears_within_a_second(verb: list[str]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = portfolio_dfl(*verb, "--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert shown.returncode == 0
    assert "Usage" in shown.stdout
    # Processor time: how long the clock runs depends on what else the machine does.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_the_command_line_itself_loads_nothing_heavy() -> None:
    heavy = ("torch", "lightning", "mlflow", "plotly", "skfolio", "arch", "numba", "pandas", "yfinance")
    code = f"import sys, portfolio_dfl.cli; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_config_prints_yaml_that_run_would_read() -> None:
    shown = portfolio_dfl("config", "--set", "training.epochs=3")
    assert yaml.safe_load(shown.stdout)["training"]["epochs"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.yaml"], "no configuration file absent.yaml"),
        (["run", "--set", "training.epoch=1"], "the nearest is training.epochs"),
        (["run", "--set", "backtest.start=2020-02-31"], "backtest.start"),
        (["run", "--set", "data.tickers=[MTUM]"], "at least two tickers"),
        (["run", "--set", "data.source=absent.csv"], "absent.csv"),
        (["run", "--set", "allocation.horizon=5000"], "use more data"),
        (["train", "--set", "training.loss=foo"], "unknown loss 'foo'"),
        (["compare", "--set", "forecasting.predictor=foo"], "unknown predictor 'foo'"),
        (["sweep"], "sweep.space is empty"),
        (["resume", "absent"], "no run absent"),
        (["backtest", "absent"], "no run absent"),
        (["report", "absent"], "no run absent"),
        (["predict", "absent"], "no run absent"),
        (["ui"], "no MLflow store"),
        (["data", "check", "absent.csv"], "absent.csv"),
        (["data", "show", "absent"], "absent"),
        (["data", "fetch", "x", "--source", "absent.csv"], "absent.csv"),
    ],
)
def test_bad_input_gives_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["portfolio-dfl", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    errors = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert left.value.code == 2
    assert message in errors[-1]
    assert len(errors) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_error_reaches_the_shell_without_a_traceback(tmp_path: Path) -> None:
    shown = portfolio_dfl("run", "absent.yaml", cwd=tmp_path)
    assert shown.returncode == 2
    assert shown.stderr.startswith("error: no configuration file absent.yaml")
    assert len(shown.stderr.strip().splitlines()) == 1
