"""The command line: verbs only, each of which calls one public function that a notebook can call too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from portfolio_dfl.errors import PortfolioError

__all__ = ["app", "main"]

app = typer.Typer(
    name="portfolio-dfl",
    help="Train return forecasts on the portfolio decisions they lead to, and judge them walk-forward.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigFile = Annotated[Path | None, typer.Argument(help="YAML file of the study; defaults where left out")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="override a value, e.g. training.epochs=5"),
]


@app.command()
def run(config: ConfigFile = None, override: Overrides = None) -> None:
    """Run a whole study: train, backtest beside baselines, record in MLflow, write the report."""
    from portfolio_dfl.config import load_config

    study = load_config(config, override)
    from portfolio_dfl.study import run_study

    with _progress_bars() as progress:
        result = run_study(study, progress=progress)
    typer.echo(result)


@app.command()
def config(config: ConfigFile = None, override: Overrides = None) -> None:
    """Print a study's complete configuration as YAML with comments; without a file, the defaults."""
    from portfolio_dfl.config import load_config

    typer.echo(load_config(config, override).to_yaml(comments=True), nl=False)


def main() -> None:
    """Entry point: errors meant for the user become one line on standard error and exit code 2."""
    try:
        app()
    except (SystemExit, KeyboardInterrupt):
        raise
    except _user_errors() as error:
        typer.secho(f"error: {' '.join(str(error).split())}", err=True, fg=typer.colors.RED)
        sys.exit(2)


def _user_errors() -> tuple[type[Exception], ...]:
    # Looked up only once something failed: importing dxpp_core brings torch, too slow for --help.
    if "dxpp_core" not in sys.modules:
        return (PortfolioError,)
    from dxpp_core.errors import QPError

    return (PortfolioError, QPError)


@contextmanager
def _progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback (stage, done, total) that keeps one bar for each stage."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    bars: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as display:

        def advance(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                bars[stage] = display.add_task(stage, total=total)
            display.update(bars[stage], completed=done, total=total)

        yield advance


if __name__ == "__main__":
    main()
