"""Sudoku: puzzles with one solution, rules that solve them, and a layer that learns the rules."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.sudoku import sudoku
from portfolio_dfl.tasks.sudoku_boards import constraint_matrix, count_solutions, make_puzzles, one_hot
from portfolio_dfl.tasks.sudoku_layer import SudokuLayer


@pytest.mark.parametrize(("n", "clues", "count"), [(2, 5, 30), (3, 40, 3), (4, 190, 1)])
def test_puzzles_are_different_and_have_one_solution_each(n: int, clues: int, count: int) -> None:
    made = make_puzzles(n, count, clues=clues, seed=0)
    size = n * n
    assert len({puzzle.tobytes() for puzzle in made.puzzles}) == count
    for puzzle, solution in zip(made.puzzles, made.solutions, strict=True):
        assert count_solutions(puzzle, n) == 1
        assert (puzzle[puzzle > 0] == solution[puzzle > 0]).all()
        boxes = solution.reshape(n, n, n, n).transpose(0, 2, 1, 3).reshape(size, size)
        for groups in (solution, solution.T, boxes):
            assert (np.sort(groups, axis=1) == np.arange(1, size + 1)).all()


def test_an_empty_board_has_several_solutions_and_a_contradiction_none() -> None:
    assert count_solutions(np.zeros((4, 4), dtype=np.int64), 2) == 2
    wrong = np.zeros((4, 4), dtype=np.int64)
    wrong[0, 0] = wrong[0, 3] = 1
    assert count_solutions(wrong, 2) == 0


@pytest.mark.parametrize(("n", "rank"), [(2, 40), (3, 249)])
def test_rules_are_independent_and_hold_on_solved_boards(n: int, rank: int) -> None:
    A = constraint_matrix(n)
    assert A.shape == (rank, n**6)
    assert np.linalg.matrix_rank(A) == rank
    solved = one_hot(make_puzzles(n, 2, clues=n**4, seed=1).solutions).reshape(2, -1)
    np.testing.assert_array_equal(solved @ A.T, 1.0)


@pytest.mark.parametrize(("n", "pattern", "clues"), [(2, "dense", 6), (3, "sudoku", 50)])
def test_the_layer_with_the_true_rules_solves_the_puzzles(n: int, pattern: str, clues: int) -> None:
    made = make_puzzles(n, 4, clues=clues, seed=2)
    layer = SudokuLayer(n, pattern=pattern)  # type: ignore[arg-type]
    layer.set_rules()
    scores = layer(torch.from_numpy(one_hot(made.puzzles)))
    np.testing.assert_array_equal(scores.detach().argmax(-1).numpy() + 1, made.solutions)


def test_both_patterns_agree_in_scores_and_gradients() -> None:
    clues = torch.from_numpy(one_hot(make_puzzles(2, 3, clues=6, seed=3).puzzles))
    learned, full = SudokuLayer(2, pattern="sudoku", seed=1), SudokuLayer(2, pattern="dense")
    with torch.no_grad():
        full.values.copy_(learned.matrix().reshape(-1))
    weights = torch.randn(clues.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for layer in (learned, full):
        (layer(clues) * weights).sum().backward()
    at = learned.cells[:, 0] * learned.shape[1] + learned.cells[:, 1]
    torch.testing.assert_close(learned.values.grad, full.values.grad[at], rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(learned.log_z0.grad, full.log_z0.grad, rtol=1e-7, atol=1e-9)


def test_training_lowers_the_loss_and_leaves_curves(runs: Path) -> None:
    result = sudoku(2, boards=30, held_out=10, epochs=6, methods=["ours"], repeats=1, folder=runs)
    curve = result.rows
    assert list(curve["epoch"]) == [1, 2, 3, 4, 5, 6]
    assert curve["loss"].iloc[-1] < 0.8 * curve["loss"].iloc[0]
    assert (curve["ms_per_epoch"] > 0.0).all()
    assert (runs / "tasks" / "sudoku-2" / "sudoku-2.csv").is_file()


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"n": 5}, "sizes 2, 3 or 4"), ({"methods": ["guess"]}, "no method is called 'guess'")],
)
def test_what_cannot_be_trained_is_named(settings: dict[str, object], message: str, runs: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        sudoku(**settings, folder=runs)  # type: ignore[arg-type]


def test_a_termination_signal_ends_the_training_and_is_no_success(tmp_path: Path) -> None:
    command = ["task", "sudoku", "--set", "n=2", "--set", "epochs=100000", "--set", "methods=[ours]"]
    command = [sys.executable, "-m", "portfolio_dfl.cli", *command, "--folder", str(tmp_path)]
    task = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "mlflow.db").exists():
        assert task.poll() is None
        time.sleep(0.1)
    time.sleep(3.0)
    task.send_signal(signal.SIGTERM)
    assert task.wait(timeout=60) == 128 + signal.SIGTERM
