"""Sudoku puzzles with one solution each, for boards of n² × n² cells: generated, solved and encoded.

Cells hold 0 for blank and 1 … n² otherwise; candidates are bit masks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portfolio_dfl.errors import ConfigError

__all__ = ["Puzzles", "constraint_matrix", "count_solutions", "make_puzzles", "one_hot"]

Board = NDArray[np.int64]


@dataclass(frozen=True)
class Puzzles:
    """Puzzles [k, n², n²] with blanks 0, and their solutions of the same shape."""

    puzzles: Board
    solutions: Board

    def __len__(self) -> int:
        return int(self.puzzles.shape[0])


def make_puzzles(n: int, count: int, *, clues: int, seed: int) -> Puzzles:
    """Generate ``count`` different puzzles of box size n with unique solutions.

    Parameters
    ----------
    n : int
        Size of a box: 2, 3 or 4 for boards of 4 × 4, 9 × 9 and 16 × 16.
    count : int
        Number of puzzles.
    clues : int
        Cells to leave filled; more stay where fewer would leave several solutions.
    seed : int

    Raises
    ------
    ConfigError
        If n is below 2, or there are not that many puzzles to be found.
    """
    if n < 2:
        raise ConfigError(f"n is {n}; a Sudoku has boxes of at least 2 × 2 cells")
    random = np.random.default_rng(seed)
    seen: set[bytes] = set()
    puzzles: list[Board] = []
    solutions: list[Board] = []
    tries = 0
    while len(puzzles) < count:
        solution = _random_solution(n, random)
        puzzle = _dig(solution, n, clues, random)
        tries += 1
        if tries > 20 * count + 1000:
            raise ConfigError(
                f"found only {len(puzzles)} different puzzles of size {n} with {clues} clues; ask for fewer"
            )
        key = puzzle.tobytes()
        if key not in seen:
            seen.add(key)
            puzzles.append(puzzle)
            solutions.append(solution)
    return Puzzles(np.stack(puzzles), np.stack(solutions))


def count_solutions(puzzle: Board, n: int, limit: int = 2) -> int:
    """Number of solutions of a puzzle, at most ``limit``: depth first, the cell with fewest candidates first."""
    size = n * n
    full = (1 << size) - 1
    rows, columns, boxes = ([full] * size for _ in range(3))
    blanks: list[tuple[int, int, int]] = []
    for i in range(size):
        for j in range(size):
            digit, box = int(puzzle[i, j]), i // n * n + j // n
            if not digit:
                blanks.append((i, j, box))
                continue
            bit = 1 << (digit - 1)
            if not rows[i] & columns[j] & boxes[box] & bit:
                return 0
            rows[i] ^= bit
            columns[j] ^= bit
            boxes[box] ^= bit
    found = 0

    def search(open_cells: list[tuple[int, int, int]]) -> None:
        nonlocal found
        if not open_cells:
            found += 1
            return
        best, fewest, at = 0, size + 1, 0
        for k, (i, j, box) in enumerate(open_cells):
            candidates = rows[i] & columns[j] & boxes[box]
            options = candidates.bit_count()
            if options < fewest:
                best, fewest, at = candidates, options, k
                if options <= 1:
                    break
        i, j, box = open_cells[at]
        rest = open_cells[:at] + open_cells[at + 1 :]
        while best and found < limit:
            bit = best & -best
            best ^= bit
            rows[i] ^= bit
            columns[j] ^= bit
            boxes[box] ^= bit
            search(rest)
            rows[i] ^= bit
            columns[j] ^= bit
            boxes[box] ^= bit

    search(blanks)
    return found


def one_hot(boards: Board) -> NDArray[np.float64]:
    """Boards [k, n², n²] as indicators [k, n², n², n²], the digit last; blanks are all zero."""
    digits = np.arange(1, boards.shape[-1] + 1)
    indicators: NDArray[np.float64] = (boards[..., None] == digits).astype(np.float64)
    return indicators


def constraint_matrix(n: int) -> NDArray[np.float64]:
    """Independent rows of the Sudoku constraints Ax = 1 on indicators: cells, rows, columns and boxes."""
    from scipy.linalg import qr

    size = n * n
    cell = np.arange(size**3).reshape(size, size, size)
    boxed = cell.reshape(n, n, n, n, size).transpose(0, 2, 1, 3, 4).reshape(size, size, size)
    groups = [
        cell.reshape(-1, size),
        cell.transpose(0, 2, 1).reshape(-1, size),
        cell.transpose(1, 2, 0).reshape(-1, size),
        boxed.transpose(0, 2, 1).reshape(-1, size),
    ]
    members = np.concatenate(groups)
    A = np.zeros((members.shape[0], size**3))
    np.put_along_axis(A, members, 1.0, axis=1)
    # The rows depend on each other: those that a pivoted QR factorisation takes first do not.
    R, order = qr(A @ A.T, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(R))
    independent: NDArray[np.float64] = A[np.sort(order[diagonal > 1e-9 * diagonal[0]])]
    return independent


def _random_solution(n: int, random: np.random.Generator) -> Board:
    """A solved board: the cyclic one with digits, rows, columns, bands, stacks and the two directions shuffled."""
    size = n * n
    i = np.concatenate([band * n + random.permutation(n) for band in random.permutation(n)])
    j = np.concatenate([stack * n + random.permutation(n) for stack in random.permutation(n)])
    board = (n * (i[:, None] % n) + i[:, None] // n + j) % size
    solved: Board = random.permutation(size)[board] + 1
    return solved.T.copy() if random.integers(2) else solved


def _dig(solution: Board, n: int, clues: int, random: np.random.Generator) -> Board:
    """Blank cells in random order as long as the solution stays the only one, down to ``clues`` filled cells."""
    puzzle = solution.copy()
    left = solution.size
    for cell in random.permutation(solution.size):
        if left <= clues:
            break
        i, j = divmod(int(cell), solution.shape[1])
        puzzle[i, j] = 0
        if count_solutions(puzzle, n) == 1:
            left -= 1
        else:
            puzzle[i, j] = solution[i, j]
    return puzzle
