"""A layer that learns the rules of Sudoku as the constraints of a QP, after OptNet (Amos and Kolter 2017, section 4).

For clues c (one-hot, blanks zero) the layer's answer is

    argmin_x  ½ ε ‖x‖² − cᵀx   s.t.  A x = A z₀,  x ≥ 0,     z₀ = exp(log z₀) > 0,

with A and log z₀ learned: whatever A becomes, z₀ is feasible.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

from dxpp_core import solve_qp
from portfolio_dfl.errors import TrainingError
from portfolio_dfl.tasks.peers import Program, peer_layer
from portfolio_dfl.tasks.sudoku_boards import constraint_matrix

__all__ = ["SudokuLayer", "SudokuModule"]

Pattern = Literal["dense", "sudoku"]

_CURVATURE = 0.1


class SudokuLayer(nn.Module):
    """Scores of digits that meet learned linear constraints.

    Parameters
    ----------
    n : int
        Size of a box.
    pattern : {"dense", "sudoku"}
        Whether every entry of A is learned, or those only that are not zero in the rules of Sudoku (as OptNet's
        sparse variant does); their values start at random in both.
    method : str
        ``"ours"``, ``"ours, plug-in"`` (the paper's penalty), or the name of a peer.
    seed : int
        Of the initial A.
    """

    cells: Tensor

    def __init__(self, n: int, *, pattern: Pattern = "dense", method: str = "ours", seed: int = 0) -> None:
        super().__init__()
        rules = torch.from_numpy(constraint_matrix(n))
        self.n, self.method = n, method
        rows, size = int(rules.shape[0]), int(rules.shape[1])
        cells = rules.nonzero() if pattern == "sudoku" else torch.ones_like(rules).nonzero()
        self.register_buffer("cells", cells, persistent=False)
        self.shape = rows, size
        generator = torch.Generator().manual_seed(seed)
        self.values = nn.Parameter(torch.rand(cells.shape[0], dtype=torch.float64, generator=generator))
        # Every digit equally likely in every cell, which is what the rules say of an empty board.
        self.log_z0 = nn.Parameter(torch.full((size,), -2.0 * math.log(n), dtype=torch.float64))
        self._solve = self._our_solver(pattern) if method.startswith("ours") else self._peer_solver(method)

    def set_rules(self) -> None:
        """Put the true rules of Sudoku in place of what is learned."""
        rules = torch.from_numpy(constraint_matrix(self.n))
        with torch.no_grad():
            self.values.copy_(rules[self.cells[:, 0], self.cells[:, 1]])
            self.log_z0.fill_(-2.0 * math.log(self.n))

    def forward(self, clues: Tensor) -> Tensor:
        """Scores of the shape of ``clues`` [k, n², n², n²], float64."""
        scores: Tensor = self._solve(-clues.reshape(clues.shape[0], -1)).reshape(clues.shape)
        return scores

    def matrix(self) -> Tensor:
        """A as a dense tensor."""
        zeros = torch.zeros(self.shape, dtype=torch.float64)
        return zeros.index_put((self.cells[:, 0], self.cells[:, 1]), self.values)

    def _limits(self) -> Tensor:
        """A z₀."""
        parts = self.values * self.log_z0.exp()[self.cells[:, 1]]
        return torch.zeros(self.shape[0], dtype=torch.float64).index_add(0, self.cells[:, 0], parts)

    def _our_solver(self, pattern: Pattern) -> Callable[[Tensor], Tensor]:
        size = self.shape[1]
        options: dict[str, Any] = {"method": "penalty"} if self.method == "ours, plug-in" else {}
        P = _CURVATURE * torch.eye(size, dtype=torch.float64)
        zero = torch.zeros(size, dtype=torch.float64)
        if pattern == "dense":
            return lambda q: solve_qp(P, q, A=self.matrix(), b=self._limits(), lb=zero, **options).x
        P = P.to_sparse_coo()

        def solve(q: Tensor) -> Tensor:
            # The cells are in row-major order, each once.
            A = torch.sparse_coo_tensor(
                self.cells.T, self.values, self.shape, is_coalesced=True, check_invariants=False
            )
            return solve_qp(P, q, A=A, b=self._limits(), lb=zero, **options).x

        return solve

    def _peer_solver(self, name: str) -> Callable[[Tensor], Tensor]:
        size = self.shape[1]
        eye = torch.eye(size, dtype=torch.float64)
        zero = torch.zeros(size, dtype=torch.float64)
        with torch.no_grad():
            program = Program(_CURVATURE * eye, zero, -eye, zero, self.matrix(), self._limits())
        layer = peer_layer(name, program, ("q", "A", "b"))
        return lambda q: layer(q=q, A=self.matrix(), b=self._limits())


class SudokuModule(pl.LightningModule):
    """Trains a `SudokuLayer` on the squared error of its scores, and keeps the curves of Figure 4.

    Attributes
    ----------
    losses, errors, cell_errors : list of float
        By epoch: mean training loss; shares of held-out boards not solved exactly, and of their cells that are wrong.
    epoch_seconds : list of float
        Training alone, without validation.
    """

    def __init__(self, layer: SudokuLayer, learning_rate: float = 1e-3) -> None:
        super().__init__()
        self.layer, self.learning_rate = layer, learning_rate
        self.losses: list[float] = []
        self.errors: list[float] = []
        self.cell_errors: list[float] = []
        self.epoch_seconds: list[float] = []
        self._sums = [0.0, 0.0]
        self._wrong: list[Tensor] = []
        self._start = 0.0

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)

    def on_train_epoch_start(self) -> None:
        self._sums, self._start = [0.0, 0.0], time.perf_counter()

    def training_step(self, batch: tuple[Tensor, Tensor], batch_index: int) -> Tensor:
        loss = self.loss(*batch)
        if not bool(torch.isfinite(loss)):
            raise TrainingError(
                f"loss is {float(loss.detach())} in epoch {self.current_epoch + 1} of {self.layer.method}"
            )
        self._sums[0] += float(loss.detach()) * len(batch[0])
        self._sums[1] += len(batch[0])
        return loss

    def loss(self, clues: Tensor, boards: Tensor) -> Tensor:
        """Mean squared error of the scores against the solved board, both one-hot."""
        return nn.functional.mse_loss(self.layer(clues), boards)

    # Lightning validates before it calls on_train_epoch_end: the clock stops at the first validation batch.
    def on_validation_epoch_start(self) -> None:
        if not self.trainer.sanity_checking and self._sums[1]:
            self.epoch_seconds.append(time.perf_counter() - self._start)
            self.losses.append(self._sums[0] / self._sums[1])
        self._wrong = []

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_index: int) -> None:
        clues, boards = batch
        self._wrong.append(self.layer(clues).argmax(-1) != boards.argmax(-1))

    def on_validation_epoch_end(self) -> None:
        wrong = torch.cat(self._wrong)
        self.errors.append(float(wrong.flatten(1).any(1).double().mean()))
        self.cell_errors.append(float(wrong.double().mean()))
