"""The factored Newton matrix solves what the matrix in full does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portfolio_dfl.allocation.factored.system import FactoredSystem


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 3), st.booleans(), st.integers(0, 999))
def test_solutions_are_those_of_the_matrix_in_full(H: int, N: int, K: int, turns: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = np.column_stack([rng.normal(size=(N, K)), np.ones(N)])
    r = K + 1
    diagonal, springs = rng.uniform(0.5, 2.0, (H, N)), 10.0 ** rng.uniform(-3, 3, (H, N))
    gamma = rng.normal(size=(H, N)) * turns
    give = np.column_stack([np.ones((H, K)), np.zeros(H), rng.uniform(0.1, 1.0, H)])
    f, b = rng.normal(size=(H, N)), rng.normal(size=(H, r + 1))
    b[:, -1] *= turns
    system = FactoredSystem(columns, H)
    assert system.factor(diagonal, springs, gamma, give)
    x, z = system.solve(f, b)

    change = np.eye(H) - np.eye(H, k=-1)
    T = np.diag(diagonal.ravel())
    A = np.zeros((H * N, H * (r + 1)))
    for s in range(H):
        moves = np.kron(change[s], np.eye(N))
        T += moves.T @ np.diag(springs[s]) @ moves
        A[s * N : (s + 1) * N, s * (r + 1) : s * (r + 1) + r] = columns
        A[:, s * (r + 1) + r] = moves.T @ gamma[s]
    full = np.block([[T, A], [A.T, -np.diag(give.ravel())]])
    expected = np.linalg.solve(full, np.concatenate([f.ravel(), b.ravel()]))
    np.testing.assert_allclose(x.ravel(), expected[: H * N], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(z.ravel(), expected[H * N :], rtol=1e-8, atol=1e-9)


def test_a_matrix_that_is_not_positive_definite_is_not_factored() -> None:
    system = FactoredSystem(np.ones((3, 1)), 2)
    ones = np.ones((2, 3))
    with np.errstate(all="ignore"):
        assert not system.factor(-ones, 0.0 * ones, 0.0 * ones, np.array([[0.0, 1.0]] * 2))


@pytest.mark.parametrize("spring", [1e6, 1e12])
def test_stiff_springs_lose_no_digits(spring: float) -> None:
    rng = np.random.default_rng(0)
    H, N = 4, 5
    system = FactoredSystem(np.ones((N, 1)), H)
    springs = np.full((H, N), spring)
    springs[0] = 0.0
    assert system.factor(np.ones((H, N)), springs, np.zeros((H, N)), np.array([[0.0, 1.0]] * H))
    f = rng.normal(size=(H, N))
    x, _ = system.solve(f, np.zeros((H, 2)))
    # All stages move as one: their sum has H times the curvature, and no stage a total of its own.
    pulled = f.sum(axis=0)
    np.testing.assert_allclose(x, np.broadcast_to((pulled - pulled.mean()) / H, (H, N)), atol=1e-5)
