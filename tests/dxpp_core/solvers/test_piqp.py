"""PIQP's workspaces: nothing of one solve enters another."""

from __future__ import annotations

import threading

import numpy as np
import torch
from quadratic_programs import loss_weights, make_problem

from dxpp_core import (
    solve_qp,
)

F64 = torch.float64


def test_repeated_solves_are_identical_whatever_was_solved_between() -> None:
    def chain(n: int, seed: int) -> dict[str, torch.Tensor]:
        D = np.eye(n - 1, n) - np.eye(n - 1, n, 1)
        q = np.random.default_rng(seed).normal(size=n)
        return make_problem(P=np.eye(n), q=q, G=np.vstack([D, -D]), h=np.full(2 * n - 2, 0.3)).arguments

    first = solve_qp(**chain(80, 0)).x
    for seed in range(1, 4):
        solve_qp(**chain(80, seed))
    assert torch.equal(solve_qp(**chain(80, 0)).x, first)


def test_threads_do_not_share_a_workspace() -> None:
    n = 80
    D = torch.eye(n, dtype=F64)[:-1] - torch.eye(n, dtype=F64)[1:]
    qs = [torch.randn(n, dtype=F64, generator=torch.Generator().manual_seed(i)) for i in range(8)]

    def gradient(q: torch.Tensor) -> torch.Tensor:
        q = q.clone().requires_grad_()
        x = solve_qp(torch.eye(n, dtype=F64), q, D, torch.full((n - 1,), 0.3, dtype=F64)).x
        return torch.autograd.grad(x @ loss_weights(n), q)[0]

    alone = [gradient(q) for q in qs]
    together: list[torch.Tensor | None] = [None] * 8

    def work(i: int) -> None:
        for _ in range(3):
            together[i] = gradient(qs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for left, right in zip(alone, together, strict=True):
        assert right is not None
        assert torch.equal(left, right)


def test_a_workspace_forgets_the_bounds_of_an_earlier_call() -> None:
    n = 60
    P, q, lower = torch.eye(n, dtype=F64), -torch.ones(n, dtype=F64), torch.zeros(n, dtype=F64)
    first = solve_qp(P, q, lb=lower, polish=False).x
    solve_qp(P, q, lb=lower, ub=torch.full((n,), 0.1, dtype=F64))
    assert torch.equal(solve_qp(P, q, lb=lower, polish=False).x, first)
