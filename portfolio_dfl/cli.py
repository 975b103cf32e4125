"""The command line: verbs only, each of which calls one public function that a notebook can call too."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from portfolio_dfl.errors import PortfolioError
from portfolio_dfl.wording import counted
from portfolio_dfl.wording.console import can_show, degrade

__all__ = ["app", "main"]

app = typer.Typer(
    name="portfolio-dfl",
    help="Train return forecasts on the portfolio decisions they lead to, and judge them walk-forward.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

data = typer.Typer(help="Prices: fetch, check, show and list them.", no_args_is_help=True)
app.add_typer(data, name="data")

ConfigFile = Annotated[Path | None, typer.Argument(help="YAML file of the study; defaults where left out")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override a value, e.g. training.epochs=5")
]
Elsewhere = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="where the rest runs, e.g. execution.workers=1")
]
RunName = Annotated[str, typer.Argument(help="folder of a run, or its name")]
Runs = Annotated[Path, typer.Option("--folder", help="folder of runs, as in tracking.folder")]
Snapshots = Annotated[Path, typer.Option("--folder", help="folder of snapshots")]
Tickers = Annotated[str | None, typer.Option("--tickers", help="comma-separated, e.g. VTI,AGG,GLD")]
Start = Annotated[str | None, typer.Option("--start", help="first date, e.g. 2011-01-03")]
End = Annotated[str | None, typer.Option("--end", help="last date, included")]
Calendar = Annotated[str, typer.Option("--calendar", help="exchange calendar, e.g. XNYS; none: no check")]
Policies = Annotated[
    list[str] | None, typer.Option("--policy", metavar="KIND=CHOICE", help="what to do about a defect")
]
_SNAPSHOTS = Path("data") / "snapshots"
_CLOSED_PIPE = 141  # 128 and the number of SIGPIPE, as shells count


class _ReaderGoneError(Exception):
    """Nobody reads what is printed any more."""


@app.command()
def run(config: ConfigFile = None, override: Overrides = None) -> None:
    """Run a whole study: train, backtest beside baselines, record in MLflow, write the report."""
    from portfolio_dfl.config.study import load_config

    study = load_config(config, override)
    with _progress_bars() as progress:
        from portfolio_dfl.study.run import run_study

        result = run_study(study, progress=progress)
    _say(result)


@app.command()
def train(config: ConfigFile = None, override: Overrides = None) -> None:
    """Train all windows of a study and stop there; `backtest` goes on."""
    from portfolio_dfl.config.study import load_config

    study = load_config(config, override)
    with _progress_bars() as progress:
        from portfolio_dfl.study.run import train_study

        result = train_study(study, progress=progress)
    _say(result)


@app.command()
def backtest(run: RunName, override: Elsewhere = None, folder: Runs = Path("runs")) -> None:
    """Backtest a study that was trained before, beside its baselines."""
    resume(run, override, folder)


@app.command()
def compare(config: ConfigFile = None, override: Overrides = None) -> None:
    """Run the standard strategies and those a study names beside them, for every seed, at several cost levels."""
    from portfolio_dfl.config.study import load_config

    study = load_config(config, override)
    with _progress_bars() as progress:
        from portfolio_dfl.study.run import compare_study

        result = compare_study(study, progress=progress)
    _say(f"{result.comparison_text()}\n\n{result}")


@app.command()
def sweep(config: ConfigFile = None, override: Overrides = None) -> None:
    """Search over sweep.space, judged on the days before the test span alone."""
    from portfolio_dfl.config.study import load_config

    study = load_config(config, override)
    with _progress_bars() as progress:
        from portfolio_dfl.study.sweep import run_sweep

        result = run_sweep(study, progress=progress)
    _say(result)


@app.command()
def report(
    run: RunName,
    folder: Runs = Path("runs"),
    png: Annotated[bool, typer.Option("--png", help="each figure as a picture for papers too, in RUN/figures")] = False,
) -> None:
    """Write a finished study's report anew and show its table."""
    with _waiting("the report is written"):
        from portfolio_dfl.study.page import write_study_report
        from portfolio_dfl.study.result import load_result

        result = load_result(run, root=folder)
        write_study_report(result)
    _say(result)
    if png:
        from portfolio_dfl.report.pictures import write_pictures

        pictures = write_pictures(result.folder / "figures", result)
        _say(f"figures {pictures[0].parent}, {counted(len(pictures), 'picture')}")


@app.command()
def predict(
    model: Annotated[str, typer.Argument(help="run folder or name, or models:/NAME/VERSION")],
    prices: Annotated[str | None, typer.Option(help="fresh prices: a file, snapshot, or yahoo")] = None,
    holdings: Annotated[
        Path | None, typer.Option(help="CSV: ticker, and weight, value or shares; a line cash; else the study's start")
    ] = None,
    strategy: Annotated[str, typer.Option(help="trained strategy of a run")] = "decision_focused",
    max_age: Annotated[int, typer.Option(help="days that the last price may be old", min=0)] = 5,
    today: Annotated[datetime | None, typer.Option(help="date to count from", formats=["%Y-%m-%d"])] = None,
    start: Annotated[str | None, typer.Option(help="first date of fresh prices; else the study's data.start")] = None,
    policy: Policies = None,
    wealth: Annotated[float | None, typer.Option(help="money in all, for weights as shares")] = None,
    lot: Annotated[int | None, typer.Option(help="shares that are traded at once", min=1)] = None,
    spreads: Annotated[Path | None, typer.Option(help="fresh bid-ask spreads; else the study's file")] = None,
    format_: Annotated[str, typer.Option("--format", help="table, csv or json")] = "table",
    output: Annotated[Path | None, typer.Option(help="file to write in place of showing")] = None,
    features: Annotated[
        list[str] | None, typer.Option("--features", metavar="NAME=FILE", help="fresh table of a feature")
    ] = None,
    folder: Runs = Path("runs"),
    uri: Annotated[
        str | None, typer.Option(help="MLflow server of a registered model, http://HOST:PORT; else the folder's store")
    ] = None,
) -> None:
    """Show target weights and trades at the last close of fresh prices, read as the study's were."""
    with _waiting("the strategy and fresh prices are read"):
        from portfolio_dfl.config.study import assignments
        from portfolio_dfl.study.live import advise, require_format

        require_format(format_)
        advice = advise(
            model,
            prices=prices,
            holdings=holdings,
            strategy=strategy,
            root=folder,
            max_age=max_age,
            today=None if today is None else today.date(),
            start=start,
            policies=assignments(policy or []),
            wealth=wealth,
            lot=lot,
            spreads=spreads,
            features=assignments(features or []),
            uri=uri,
        ).text(format_)
    if output is None:
        _say(advice)
    else:
        output.write_text(f"{advice}\n", encoding="utf-8")
        _say(f"written to {output}")


@app.command()
def resume(run: RunName, override: Elsewhere = None, folder: Runs = Path("runs")) -> None:
    """Continue an interrupted study where it stopped, to the same numbers."""
    with _progress_bars() as progress:
        from portfolio_dfl.study.run import resume_study

        result = resume_study(run, root=folder, overrides=override or [], progress=progress)
    _say(result)


@app.command()
def ui(
    folder: Runs = Path("runs"),
    port: Annotated[int, typer.Option(help="port on this machine", min=1, max=65535)] = 5000,
    browser: Annotated[bool, typer.Option(help="open the page in a browser")] = True,
) -> None:
    """Open MLflow's dashboard on the runs of the newest study."""
    from portfolio_dfl.execution.interruption import closed_on_signal
    from portfolio_dfl.tracking.dashboard import start_dashboard

    with closed_on_signal():
        with _waiting("MLflow is starting, which takes some 10 seconds"):
            dashboard = start_dashboard(folder, port=port, open_browser=browser)
        _say(f"{dashboard}\nstop with Ctrl-C")
        dashboard.wait()


# Written down here, so that help does not wait for what tasks import.
_TASKS = (
    "gradient-accuracy | projection-simplex | projection-chain | runtime | epoch | sudoku | smoothing | "
    "smoothed-training | factor-risk | objectives | universe | mechanism | "
    "evidence"
)


@app.command()
def task(
    name: Annotated[str, typer.Argument(help=_TASKS)],
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="one argument, e.g. sizes=[20,100]")
    ] = None,
    reduced: Annotated[bool, typer.Option(help="small sizes for a quick look")] = False,
    folder: Runs = Path("runs"),
) -> None:
    """Measure one of the paper's tables here, other layers alongside: table, CSV, figure and MLflow run."""
    from portfolio_dfl.config.study import assignments
    from portfolio_dfl.execution.interruption import closed_on_signal
    from portfolio_dfl.tasks.catalogue import run_task

    told = f"{name} is being measured" + ("" if reduced else "; `--reduced` takes small sizes, for a quick look")
    with closed_on_signal():  # Lightning would hear a signal at the end of a step, and call that success
        with _waiting(told):
            result = run_task(name, assignments(override or []), reduced=reduced, folder=folder)
        _say(result)


@app.command()
def doctor() -> None:
    """Show versions, the solvers found, and what Gurobi's licence allows."""
    from portfolio_dfl.execution.doctor import diagnose

    with _waiting("every solver is tried"):
        found = diagnose()
    _say(found)


@app.command()
def config(config: ConfigFile = None, override: Overrides = None) -> None:
    """Print a study's complete configuration as YAML with comments; without a file, the defaults."""
    from portfolio_dfl.config.study import load_config

    study = load_config(config, override)
    text = study.to_yaml(comments=True)
    # What is read back as UTF-8 must be that, or have no letter that tells encodings apart.
    _say(text if can_show(text) else study.to_yaml(comments=True, ascii_only=True), nl=False)


@data.command()
def fetch(
    name: Annotated[str, typer.Argument(help="name of the snapshot, e.g. etf7")],
    source: Annotated[str, typer.Option(help="yahoo, embedded, or the path of a file")] = "yahoo",
    tickers: Tickers = None,
    start: Start = None,
    end: End = None,
    calendar: Calendar = "XNYS",
    folder: Snapshots = _SNAPSHOTS,
    accept_changes: Annotated[bool, typer.Option(help="let a rewritten history become current")] = False,
) -> None:
    """Load prices, check them, and freeze them under a name for studies to use offline."""
    from portfolio_dfl.data.store import fetch_snapshot

    with _waiting(f"prices of {name} are loaded from {source} and checked"):
        snapshot = fetch_snapshot(
            source,
            name,
            folder=folder,
            tickers=_listed(tickers),
            start=start,
            end=end,
            calendar=_calendar(calendar),
            accept_changes=accept_changes,
        )
    _say(snapshot)


@data.command()
def check(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet file of prices, or YAML file of a study")],
    tickers: Tickers = None,
    start: Start = None,
    end: End = None,
    calendar: Calendar = "XNYS",
    policy: Policies = None,
) -> None:
    """Run every check on a file of prices, or on the prices and features of a study, and report what was found.

    Exit code 0: a study can use them with these policies. 1: it cannot. 2: they could not be checked.
    """
    from portfolio_dfl.config.study import assignments
    from portfolio_dfl.data.inspection import check_file

    if file.suffix.lower() in (".yaml", ".yml"):
        from portfolio_dfl.study.check import check_study

        study = check_study(file)
        _say(study)
        if not study.usable:
            raise typer.Exit(1)
        return
    report = check_file(
        file,
        tickers=_listed(tickers),
        start=start,
        end=end,
        calendar=_calendar(calendar),
        policies=assignments(policy or []),
    )
    _say(report)
    if not report.usable:
        raise typer.Exit(1)


@data.command()
def show(
    name: Annotated[str, typer.Argument(help="snapshot, path of a file, or embedded")],
    calendar: Calendar = "XNYS",
    folder: Snapshots = _SNAPSHOTS,
    output: Annotated[Path | None, typer.Option(help="path of the page")] = None,
) -> None:
    """Write a page that shows prices, returns, gaps and findings at a glance."""
    from portfolio_dfl.data.store import show_snapshot

    _say(show_snapshot(name, folder=folder, output=output, calendar=_calendar(calendar)))


@data.command("list")
def list_(folder: Snapshots = _SNAPSHOTS) -> None:
    """List the snapshots of a folder."""
    from portfolio_dfl.data.store import list_snapshots

    _say(list_snapshots(folder))


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _calendar(name: str) -> str | None:
    return None if name.lower() == "none" else name


def main() -> None:
    """Entry point: errors meant for the user become one line on standard error and exit code 2.

    A reader of our output that goes away, such as ``head``, ends it as silently as it ends other programs.
    """
    degrade()
    try:
        sys.exit(app(prog_name="portfolio-dfl", standalone_mode=False))
    except _ReaderGoneError:
        sys.exit(_CLOSED_PIPE)
    except typer.TyperException as error:
        message = _usage(error)
    except OSError as error:
        message = f"{error.filename or 'the system'}: {error.strerror or error}"
    except _user_errors() as error:
        message = str(error)
    if message:
        typer.secho(f"error: {' '.join(message.split())}", file=sys.stderr, err=True, fg=typer.colors.RED)
    sys.exit(2)


def _say(text: object, *, nl: bool = True) -> None:
    """Print at once: at the exit of Python it would be too late to say that it cannot be written.

    Typer by itself would write UTF-8 where the stream says that it is ASCII.
    """
    try:
        typer.echo(text, file=sys.stdout, nl=nl)
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        with open(os.devnull, "wb") as nothing:  # or Python would try again at its exit
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise _ReaderGoneError from error
        raise OSError(error.errno, error.strerror, "standard output") from error


def _usage(error: typer.TyperException) -> str:
    """What is wrong with the words of a command, and where to read on; nothing where its help was shown instead."""
    message = error.format_message().strip().rstrip(".")
    context = getattr(error, "ctx", None)
    if not message or context is None:
        return message
    return f"{message[0].lower()}{message[1:]}; see `{context.command_path} --help`"


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
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Pace(ProgressColumn):
        """Time that one takes."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if not speed else f"{1.0 / speed:{'.2g' if speed > 0.1 else '.0f'}} s each")

    bars: dict[str, TaskID] = {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),  # so that all of it fits into 80 columns
        MofNCompleteColumn(),
        Pace(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    display = Progress(*columns, console=console)
    opening = console.status("libraries, prices and MLflow are being opened; longest at first")

    def advance(stage: str, done: int, total: int) -> None:
        if not bars:
            opening.stop()
            display.start()
        if stage not in bars:
            bars[stage] = display.add_task(stage, total=total)
        display.update(bars[stage], completed=done, total=total)

    opening.start()
    try:
        yield advance
    except BaseException as error:
        # What is left on the screen is the error alone, or how to go on.
        opening.stop()
        display.live.transient = True
        display.live.stop()
        if isinstance(error, KeyboardInterrupt | SystemExit):
            for note in getattr(error, "__notes__", ()):
                typer.secho(note, file=sys.stderr, err=True)
        raise
    opening.stop()
    if bars:
        display.stop()


@contextmanager
def _waiting(for_what: str) -> Iterator[None]:
    """Say on a terminal, while it lasts, what takes seconds or more without a sign of its own."""
    from rich.console import Console

    with Console(stderr=True).status(for_what):
        yield


if __name__ == "__main__":
    main()
