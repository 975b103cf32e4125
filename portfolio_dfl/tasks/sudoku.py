"""Learning the rules of Sudoku (Table 6, Figure 4): loss and error curves by method, and the time of an epoch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.peers import PEERS, find_peers
from portfolio_dfl.tasks.published import MACHINE, sudoku_times
from portfolio_dfl.tasks.records import TaskResult, describe_machine, paper_layout, require_place, save_task
from portfolio_dfl.tasks.settings import require_least, require_positive, require_some

if TYPE_CHECKING:
    from torch import Tensor

    from portfolio_dfl.tasks.sudoku_layer import Pattern, SudokuLayer

__all__ = ["sudoku"]

_OURS = "ours"
# Boards, held-out boards, clues, boards a batch, epochs, learning rate, learned pattern: by size of a box.
_SETTINGS: dict[int, dict[str, Any]] = {
    2: {"boards": 200, "held_out": 50, "clues": 8, "batch": 20, "epochs": 60, "rate": 4e-2, "pattern": "dense"},
    3: {"boards": 24, "held_out": 8, "clues": 50, "batch": 8, "epochs": 12, "rate": 5e-2, "pattern": "sudoku"},
    4: {"boards": 2, "held_out": 1, "clues": 190, "batch": 2, "epochs": 1, "rate": 5e-2, "pattern": "sudoku"},
}

_REDUCED: dict[int, dict[str, Any]] = {2: {"boards": 40, "epochs": 8}, 3: {"boards": 8, "held_out": 4, "epochs": 3}}


def sudoku(
    n: int = 2,
    *,
    boards: int | None = None,
    held_out: int | None = None,
    clues: int | None = None,
    batch: int | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    methods: Sequence[str] | None = None,
    repeats: int = 5,
    peer_limit_s: float = 120.0,
    seed: int = 0,
    reduced: bool = False,
    folder: str | os.PathLike[str] = "runs",
) -> TaskResult:
    """Train the constraint layer on Sudoku puzzles by every method, from the same start on the same batches.

    Parameters
    ----------
    n : {2, 3, 4}
        Size of a box: boards of 4 × 4, 9 × 9 or 16 × 16 cells.
    boards, held_out : int, optional
        Puzzles to train on and to judge by, all different, each with one solution.
    clues : int, optional
        Cells that a puzzle shows.
    batch, epochs, learning_rate : optional
        Of the training.
    methods : sequence of str, optional
        Out of "ours", "ours, plug-in" and the names of peers; by default "ours", and OptNet where it is installed, but
        not on 16 × 16 cells, where its dense factors take minutes a step.
    repeats : int
        Training steps that are timed, taking turns between methods; one on larger boards than 4 × 4.
    peer_limit_s : float
        A peer is trained for as many epochs as take about this long, and for one at least.
    seed : int
    reduced : bool
        Fewer epochs and boards.
    folder : path
        Folder of runs.

    Returns
    -------
    TaskResult
        Rows: method, n, epoch, loss, error, cell_error, seconds, ms_per_epoch.  ``ms_per_epoch`` is the median step,
        interleaved between methods, times the steps of an epoch.

    Raises
    ------
    ConfigError
        For another n, a number that is not positive, an unknown method or none, or more puzzles than there are.
    TrainingError
        If a loss is not finite.
    TrackingError
        If ``folder`` takes no results.
    """
    if n not in _SETTINGS:
        raise ConfigError(f"n is {n}; boxes have sizes 2, 3 or 4")
    require_some(methods=methods)
    require_least(1, boards=boards, held_out=held_out, clues=clues, batch=batch, epochs=epochs, repeats=repeats)
    require_least(0, seed=seed)
    require_positive(learning_rate=learning_rate, peer_limit_s=peer_limit_s)
    given = {
        "boards": boards,
        "held_out": held_out,
        "clues": clues,
        "batch": batch,
        "epochs": epochs,
        "rate": learning_rate,
    }
    settings = {**_SETTINGS[n], **(_REDUCED.get(n, {}) if reduced else {})}
    settings |= {name: value for name, value in given.items() if value is not None}
    wanted = list(dict.fromkeys(methods)) if methods is not None else [_OURS, "OptNet"] if n < 4 else [_OURS]
    absent = find_peers([name for name in wanted if name in PEERS])[1]
    able = [name for name in wanted if name not in absent]
    for name in able:
        if name not in PEERS and name not in (_OURS, "ours, plug-in"):
            raise ConfigError(f"no method is called {name!r}; known are ours; ours, plug-in; {', '.join(PEERS)}")
    if not able:
        raise ConfigError(f"none of the methods is installed: {', '.join(absent)}")
    require_place(f"sudoku-{n}", folder)

    data = _data(n, settings, seed)
    layers = {name: _layer(n, settings["pattern"], name, seed) for name in able}
    steps = -(-settings["boards"] // settings["batch"])
    times = _step_times(layers, data, settings["batch"], repeats if n == 2 else 1)
    curves = []
    for name in able:
        affordable = max(1, int(1e3 * peer_limit_s / (steps * times[name]))) if name in PEERS else settings["epochs"]
        own = {**settings, "epochs": min(settings["epochs"], affordable)}
        curves.append(_train(name, layers[name], data, own, seed))
    frame = pd.concat(curves, ignore_index=True)
    frame.insert(1, "n", n)
    frame["ms_per_epoch"] = frame["method"].map({name: steps * ms for name, ms in times.items()})
    name = f"sudoku-{n}"
    last = frame.groupby("method", sort=False).last()
    result = TaskResult(
        name=name,
        title=f"Sudoku of {n * n} × {n * n} cells: {settings['boards']} boards, {settings['held_out']} held out",
        rows=frame,
        table=_tables(frame, n),
        figures={name: _figure(frame)},
        parameters={"n": n, "methods": able, "repeats": repeats, "seed": seed, **settings},
        metrics={
            f"{method}/{column}": float(value)
            for method, row in last[["loss", "error", "cell_error", "ms_per_epoch"]].iterrows()
            for column, value in row.items()
        },
        notes=_notes(settings, steps, absent),
        machine=describe_machine(),
    )
    return save_task(result, folder)


def _data(n: int, settings: dict[str, Any], seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Clues and solutions to train on, and those held out, one-hot."""
    import torch

    from portfolio_dfl.tasks.sudoku_boards import make_puzzles, one_hot

    count = settings["boards"]
    made = make_puzzles(n, count + settings["held_out"], clues=settings["clues"], seed=seed)
    clues, boards = (torch.from_numpy(one_hot(part)) for part in (made.puzzles, made.solutions))
    return clues[:count], boards[:count], clues[count:], boards[count:]


def _layer(n: int, pattern: Pattern, method: str, seed: int) -> SudokuLayer:
    from portfolio_dfl.tasks.sudoku_layer import SudokuLayer

    return SudokuLayer(n, pattern=pattern, method=method, seed=seed)


def _step_times(
    layers: dict[str, SudokuLayer], data: tuple[Tensor, Tensor, Tensor, Tensor], batch: int, repeats: int
) -> dict[str, float]:
    """Median milliseconds of forward and backward on one batch."""
    from portfolio_dfl.tasks.timing import time_side_by_side

    clues = data[0]

    def inputs(i: int) -> Tensor:
        begin = (i * batch) % max(1, len(clues) - batch + 1)
        return clues[begin : begin + batch]

    found = time_side_by_side(layers, inputs, repeats=repeats)
    for layer in layers.values():
        layer.zero_grad()
    return {name: time.total for name, time in found.items()}


def _train(
    method: str, layer: SudokuLayer, data: tuple[Tensor, Tensor, Tensor, Tensor], settings: dict[str, Any], seed: int
) -> pd.DataFrame:
    """Curves of one method."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from portfolio_dfl.tasks.sudoku_layer import SudokuModule
    from portfolio_dfl.training.trainer import fit_quietly

    clues, boards, held_clues, held_boards = data
    generator = torch.Generator().manual_seed(seed)
    training = DataLoader(TensorDataset(clues, boards), batch_size=settings["batch"], shuffle=True, generator=generator)
    # Not shuffled, but a loader without a generator draws from the global state.
    held = DataLoader(TensorDataset(held_clues, held_boards), batch_size=100, generator=torch.Generator())
    module = SudokuModule(layer, settings["rate"])
    fit_quietly(module, training, held, epochs=settings["epochs"])
    return pd.DataFrame(
        {
            "method": method,
            "epoch": range(1, len(module.losses) + 1),
            "loss": module.losses,
            "error": module.errors,
            "cell_error": module.cell_errors,
            "seconds": module.epoch_seconds,
        }
    )


def _tables(frame: pd.DataFrame, n: int) -> str:
    last = frame.groupby("method", sort=False).last().reset_index()
    figures = last.rename(
        columns={"epoch": "epochs", "error": "board error", "cell_error": "cell error", "ms_per_epoch": "ms an epoch"}
    ).melt(
        id_vars="method",
        value_vars=["epochs", "loss", "board error", "cell error", "ms an epoch"],
        var_name="figure",
    )
    paper = sudoku_times()
    paper = paper[paper["n"] == n].assign(figure="ms an epoch").rename(columns={"ms_per_epoch": "value"})
    both = pd.concat([figures, paper[["method", "figure", "value"]]])
    return paper_layout(both, ["method"], "figure", "value", form="{:.4g}")


def _figure(frame: pd.DataFrame) -> Any:
    from portfolio_dfl.tasks.charts import line_panels

    curves = {
        title: frame[["method", "epoch"]].assign(value=frame[column])
        for title, column in (
            ("Training loss", "loss"),
            ("Held-out boards wrong", "error"),
            ("Held-out cells wrong", "cell_error"),
        )
    }
    return line_panels(
        curves,
        x="epoch",
        y="value",
        by="method",
        x_title="epoch",
        y_titles=["mean squared error", "share", "share"],
        log_x=False,
        log_y=False,
    )


def _notes(settings: dict[str, Any], steps: int, absent: Sequence[str]) -> list[str]:
    notes = [
        f"An epoch is {steps} steps of {settings['batch']} boards; its time is the median forward and backward of one,"
        f" methods taking turns, times {steps}.  The paper does not say how many boards its epochs have.",
        MACHINE,
    ]
    return [*notes, f"not installed, so not trained: {', '.join(absent)}"] if absent else notes
