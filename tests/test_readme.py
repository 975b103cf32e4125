"""What the README and the site's pages show does what they say: code, configurations and commands."""

from __future__ import annotations

import ast
import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml
from small_study import empty_store

from dxpp_core.solvers import SolverProblem, find_solver
from portfolio_dfl.cli import main
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.data.store import fetch_snapshot
from portfolio_dfl.study.run import run_study

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "pages"
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted(PAGES.rglob("*.md"))]
}


def blocks(language: str) -> list[tuple[str, str]]:
    """Every block of code of a language, with the file that it is in."""
    pattern = re.compile(rf"```{language}\n(.*?)```", re.DOTALL)
    return [(name, textwrap.dedent(block)) for name, text in TEXTS.items() for block in pattern.findall(text)]


def block(part: str) -> str:
    """The one block of Python, or the first, that holds a piece of text."""
    return next(block for _, block in blocks("python") if part in block)


def test_the_readme_is_short() -> None:
    assert len(TEXTS["README.md"].splitlines()) <= 120


def test_the_fifteen_lines_run() -> None:
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", TEXTS["README.md"], re.DOTALL)[0], names)
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
    shown = block("delta=0.5")
    last = shown.strip().splitlines()[-1].split("#")[0]
    exec(shown.replace(last, f"found = {last}"), names)
    (smooth,) = names["found"]
    assert float(smooth[0]) < 0.0 < float(smooth[1])


def my_solver(problem: SolverProblem, tolerance: float) -> tuple[object, ...]:
    """A user's own, which the page does not show."""
    raw = find_solver("piqp")(problem, tolerance)
    return raw.x, raw.y, raw.z, raw.z_box


def test_a_solver_registered_as_the_page_shows() -> None:
    from dxpp_core import solve_qp

    exec(block("register_solver"), {"my_solver": my_solver})
    x = solve_qp(torch.eye(2, dtype=torch.float64), -torch.ones(2, dtype=torch.float64), solver="mine").x
    torch.testing.assert_close(x, torch.ones(2, dtype=torch.float64))


def test_the_predictor_of_the_page_sees_features() -> None:
    from portfolio_dfl import Inputs

    names: dict[str, Any] = {}
    exec(block("class OneSlope"), names)
    seen = Inputs(torch.zeros(2, 21, 4), torch.zeros(2, 21, 0), torch.ones(2, 21, 4, 1))
    assert names["predictor"](Inputs(*(part.double() for part in seen))).shape == (2, 5, 4)


def test_the_plan_under_factor_risk_has_gradients() -> None:
    names: dict[str, Any] = {}
    exec(block("FactorCovariance("), names)
    assert names["plan"].shape == (1, 2, 200)
    assert float(names["forecast"].grad.abs().max()) > 0.0


#: Blocks of code in another library's words begin so; they are read, not run.
OTHERS = ("# CVXPYLayers", "# qpth", "# ProxSuite", "# cvxportfolio", "# PyEPO")


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    """What code on the pages takes for granted: a small program, and returns."""
    from skfolio import RiskMeasure
    from skfolio.optimization import MeanRisk

    import dxpp_core
    from portfolio_dfl import DecisionFocusedPortfolio

    eye, ones = torch.eye(3, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64)
    program = {"P": eye, "q": torch.zeros(3).double(), "G": ones, "h": 2.0 * ones[0, :1], "A": ones, "b": ones[0, :1]}
    bounds = {"lb": -ones[0], "ub": ones[0], "lower": -ones[0, :1]}
    returns = EmbeddedSource().load().pct_change().dropna()
    returns = returns.loc["2018-01":"2018-06"]  # type: ignore[misc]
    return {
        **{name: getattr(dxpp_core, name) for name in dxpp_core.__all__},
        **program,
        **bounds,
        "torch": torch,
        "nn": torch.nn,
        "my_solver": my_solver,
        "X_train": returns.iloc[:100],
        "X_test": returns.iloc[100:],
        "DecisionFocusedPortfolio": DecisionFocusedPortfolio,
        "MeanRisk": MeanRisk,
        "RiskMeasure": RiskMeasure,
    }


@pytest.mark.parametrize(("page", "code"), blocks("python"), ids=[name for name, _ in blocks("python")])
def test_code_on_a_page_runs(page: str, code: str, given: dict[str, Any]) -> None:
    if code.startswith(OTHERS):
        ast.parse(code)
    else:
        exec(code, dict(given))


def test_a_program_of_the_comparison_is_solved_alike(given: dict[str, Any]) -> None:
    """Two-sided rows, written as one-sided ones."""
    names = {**given, "q": torch.tensor([-5.0, 1.0, 1.0], dtype=torch.float64)}
    exec(block("torch.cat([G, -G], -2)"), names)
    assert float(names["solution"].x.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize(("page", "text"), blocks("yaml"), ids=[name for name, _ in blocks("yaml")])
def test_yaml_on_a_page_is_a_study(page: str, text: str) -> None:
    study = StudyConfig.from_yaml(text)
    assert StudyConfig.from_yaml(study.to_yaml()) == study


def test_the_yaml_of_any_strategy_is_a_study() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", TEXTS["docs/pages/how-to/any_strategy.md"], re.DOTALL)
    study = StudyConfig.from_yaml(text)
    assert set(study.plain()["features"]) == {"momentum", "macro"}
    assert study.backtest.strategies[1] == "my_parts:MyPolicy"
    assert study.training.loss == "my_parts:MyLoss"


def test_studies_that_are_named_exist() -> None:
    named = {name for text in TEXTS.values() for name in re.findall(r"[a-z0-9_]+\.yaml", text)} - {"study.yaml"}
    assert {"quickstart.yaml", "weekly.yaml", "long_short.yaml"} <= named
    assert named <= {path.name for path in (ROOT / "configs").iterdir()}


def test_settings_that_are_named_exist() -> None:
    sections = StudyConfig().plain()
    pattern = re.compile(
        rf"`((?:{'|'.join(key for key in sections if isinstance(sections[key], dict))})\.[a-z_.]+)[`:]"
    )
    named = {key for text in TEXTS.values() for key in pattern.findall(text)}
    unknown = []
    for key in sorted(named):
        place: Any = sections
        for word in key.split("."):
            place = place.get(word, KeyError) if isinstance(place, dict) else KeyError
        unknown += [key] if place is KeyError else []
    assert len(named) > 15
    assert unknown == []


def test_commands_of_the_tables_exist() -> None:
    from dxpp_core.benchmark import __main__ as measures
    from portfolio_dfl.tasks.catalogue import TASKS

    text = TEXTS["docs/pages/benchmarks.md"]
    tasks = set(re.findall(r"`portfolio-dfl task ([\w-]+)", text))
    assert len(tasks) > 5
    assert tasks <= TASKS.keys()
    named = set(re.findall(r"`python -m dxpp_core.benchmark (\w+)", text))
    assert named
    assert all(name in str(measures.__doc__) for name in named)


def test_figures_of_the_comparison_are_those_of_the_tables() -> None:
    """Times and errors; what the paper reports stands in a table of the paper's."""
    figures = re.findall(r"(\d[\d.]*) ms|(\d\.\de-\d+|\de-\d+)", TEXTS["docs/pages/comparison.md"])
    shown = {time or error for time, error in figures}
    assert len(shown) > 10
    assert [figure for figure in sorted(shown) if figure not in TEXTS["docs/pages/benchmarks.md"]] == []


# -- Commands --------------------------------------------------------------------------------------------------------

SMALL = """
data.start=2017-01-03 data.end=2018-10-31 backtest.start=2018-09-04 backtest.end=2018-10-12 training.samples=20
training.retrain_every=40 training.realised_window=5 training.epochs=1 training.seeds=[0] evaluation.bootstrap=0
evaluation.reference=equal_weight evaluation.cost_levels=[0.001] execution.backend=sequential covariance.window=30
backtest.strategies=[decision_focused,equal_weight]
"""
#: Commands that are run here, with settings that keep them small.
RUN: dict[str, str] = {
    "portfolio-dfl run configs/quickstart.yaml": SMALL,
    "portfolio-dfl run configs/quickstart.yaml --set training.epochs=5": SMALL.replace("training.epochs=1 ", ""),
    "portfolio-dfl run configs/quickstart.yaml --set costs.impact=0.02 --set costs.typical_trade=0.02": SMALL,
    "portfolio-dfl run configs/quickstart.yaml --set data.source=data/snapshots/sample": SMALL,
    "portfolio-dfl run configs/weekly.yaml --set data.source=prices.csv": SMALL,
    "portfolio-dfl run configs/monthly.yaml --set data.source=prices.csv": SMALL
    + "backtest.start=2018-07-31 allocation.horizon=2 forecasting.lookback=30 training.realised_window=21",
    "portfolio-dfl run configs/universe.yaml --set data.source=prices.csv": SMALL + "allocation.max_weight=0.5",
    "portfolio-dfl compare configs/quickstart.yaml": SMALL + "evaluation.bootstrap=100",
    "portfolio-dfl run study.yaml": "",
    "portfolio-dfl config": "",
    "portfolio-dfl resume RUN": "",
    "portfolio-dfl report RUN": "",
    "portfolio-dfl predict RUN --prices FILE": "",
    "portfolio-dfl predict RUN --prices prices.csv --features macro=macro.csv": "",
    "portfolio-dfl data check FILE": "",
    "portfolio-dfl data check study.yaml": "",
    "portfolio-dfl data check weekly.csv --calendar none": "",
    "portfolio-dfl data fetch sample --source embedded": "",
    "portfolio-dfl data list": "",
    "portfolio-dfl doctor": "",
}
#: And those that are not, with the reason why.
NOT_RUN: dict[str, str] = {
    "make run": "installs everything anew; its study is run above",
    "make test": "is what runs this",
    "pip install ./dxpp_core": "tests/dxpp_core/test_distribution.py builds and tries the distribution",
    "portfolio-dfl run configs/etf7.yaml": "prices from Yahoo",
    "portfolio-dfl report RUN --png": "tests/portfolio_dfl/report/test_page.py writes the pictures, with a browser",
    "portfolio-dfl ui": "serves until it is stopped: tests/portfolio_dfl/tracking/test_dashboard.py",
    "mlflow server --backend-store-uri sqlite:///mlflow.db --host 127.0.0.1 --port 5000": "serves until it is stopped",
    "portfolio-dfl run configs/quickstart.yaml --set tracking.uri=http://127.0.0.1:5000": "needs that server",
    "portfolio-dfl predict models:/decisions/1 --prices FILE --uri http://127.0.0.1:5000": (
        "needs that server: tests/portfolio_dfl/tracking/test_dashboard.py"
    ),
    "portfolio-dfl task factor-risk --reduced": "times: tests/portfolio_dfl/tasks/test_factor_risk.py",
    "dask scheduler": "serves until it is stopped: tests/portfolio_dfl/execution/test_fan_out.py has a cluster",
    "dask worker tcp://host:8786": "as the scheduler",
    "portfolio-dfl run configs/etf7.yaml --set execution.backend=dask --set execution.address=tcp://host:8786": (
        "prices from Yahoo; tests/portfolio_dfl/execution/test_fan_out.py"
    ),
    "ray start --head": "serves until it is stopped: tests/portfolio_dfl/execution/test_fan_out.py has a cluster",
    "portfolio-dfl run configs/etf7.yaml --set execution.backend=ray --set execution.address=host:6379": (
        "prices from Yahoo; tests/portfolio_dfl/execution/test_fan_out.py"
    ),
}


def shown_commands() -> set[str]:
    lines = (line for _, block in blocks("sh") for line in block.splitlines())
    return {" ".join(line.split("#")[0].split()) for line in lines} - {""}


def test_every_command_that_is_shown_is_run_or_has_a_reason() -> None:
    assert shown_commands() == RUN.keys() | NOT_RUN.keys()
    assert not RUN.keys() & NOT_RUN.keys()


def test_tests_that_stand_for_commands_exist() -> None:
    named = {place for reason in NOT_RUN.values() for place in re.findall(r"tests/\S+\.py", reason)}
    assert len(named) > 3
    assert [place for place in sorted(named) if not (ROOT / place).is_file()] == []


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with what the commands read: prices of seven tickers, features, a study and its run."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "configs").symlink_to(ROOT / "configs")
    known = EmbeddedSource().load()
    known = known.loc["2017-01-03":"2018-10-31"]  # type: ignore[misc]
    others = {"DBC": known.iloc[:, 0] ** 0.5, "GLD": known.iloc[:, 1] ** 0.7}
    prices = known.set_axis(["VTI", "IWM", "AGG", "LQD", "MUB"], axis=1).assign(**others)
    prices.to_csv(folder / "prices.csv")
    prices.resample("W-WED").last().to_csv(folder / "weekly.csv")
    pd.DataFrame({"rate": range(len(prices))}, prices.index).to_csv(folder / "macro.csv")
    fetch_snapshot("embedded", "sample", folder=folder / "data" / "snapshots")
    empty_store(folder / "runs")
    shown = next(text for page, text in blocks("yaml") if page.endswith("features.md"))
    rest = [f"tracking.folder={folder / 'runs'}", f"features.macro.source={folder / 'macro.csv'}"]
    study = StudyConfig.from_yaml(shown).override([*SMALL.split(), f"data.source={folder / 'prices.csv'}", *rest])
    (folder / "study.yaml").write_text(study.to_yaml(), encoding="utf-8")
    (folder / "RUN").write_text(run_study(study).folder.name, encoding="utf-8")
    return folder


@pytest.mark.parametrize("command", RUN)
def test_a_command_that_is_shown_runs(
    command: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    stands_for = {"RUN": (home / "RUN").read_text(encoding="utf-8"), "FILE": "prices.csv"}
    words = [stands_for.get(word, word) for word in shlex.split(command)]
    extra = [word for setting in RUN[command].split() for word in ("--set", setting)]
    if "predict" in words:
        extra += ["--today", "2018-11-01"]
    monkeypatch.setattr(sys, "argv", [*words, *extra])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr()
    assert not left.value.code, shown.err
    assert shown.out.strip()
    if "config" in words:
        assert yaml.safe_load(shown.out)["data"]["source"] == "embedded"


def test_commands_within_sentences_exist_with_their_options() -> None:
    from typer.main import get_command

    from portfolio_dfl.cli import app

    tutorials = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "tutorials").glob("*.py"))]
    texts = [re.sub(r"\n(# )?", " ", text) for text in [*TEXTS.values(), *tutorials]]
    named = {found for text in texts for found in re.findall(r"`(?:\S*/)?portfolio-dfl ([^`]+)`", text)}
    named |= {command.partition(" ")[2] for command in shown_commands() if command.startswith("portfolio-dfl ")}
    assert len(named) > 20
    for words in map(shlex.split, sorted(named)):
        command: Any = get_command(app)
        while hasattr(command, "commands"):
            assert words[0] in command.commands, words
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, words
