"""Every program of the Maros–Mészáros and model-predictive-control sets at hand: right, or said to be otherwise.

``pytest tests/dxpp_core/test_qp_collection.py -s`` prints the table by problem.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from dxpp_core import QPError, QPSolution, solve_qp
from dxpp_core.reference import reduced_kkt_gradients

# The dense reference costs O((n + m)³).
_REFERENCE_SIZE = 800


def _matrix(data: dict[str, np.ndarray], name: str) -> sparse.csr_matrix | None:
    if f"{name}_data" not in data:
        return None
    parts = (data[f"{name}_data"], data[f"{name}_indices"], data[f"{name}_indptr"])
    return sparse.csr_matrix(sparse.csc_matrix(parts, shape=data[f"{name}_shape"]))


def _tensor(matrix: sparse.csr_matrix) -> torch.Tensor:
    matrix.sort_indices()
    parts = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return torch.sparse_csr_tensor(*parts, torch.from_numpy(matrix.data), matrix.shape, dtype=torch.float64)


def _solve(path: Path) -> tuple[QPSolution, torch.Tensor, np.ndarray, dict[str, object]]:
    data = dict(np.load(path))
    P, G, A = (_matrix(data, name) for name in "PGA")
    q = torch.from_numpy(data["q"]).requires_grad_()
    arguments: dict[str, object] = {"P": _tensor(P), "q": q}
    if G is not None:
        h = np.where(data["h"] >= 1e20, np.inf, data["h"])
        arguments |= {"G": _tensor(G), "h": torch.from_numpy(h)}
    if A is not None:
        arguments |= {"A": _tensor(A), "b": torch.from_numpy(data["b"])}
    solution = solve_qp(**arguments)  # type: ignore[arg-type]
    r = np.random.default_rng(0).normal(size=q.numel())
    (solution.x @ torch.from_numpy(r)).backward()
    return solution, q, r, {"P": P, "G": G, "A": A, "h": arguments.get("h")}


def _error(solution: QPSolution, q: torch.Tensor, r: np.ndarray, data: dict[str, object]) -> float | None:
    """Relative error of the gradient against the dense reference; None where that is too large to form."""
    x, y, z = (t.detach().numpy() for t in (solution.x, solution.y, solution.z))
    n = x.size
    if n > _REFERENCE_SIZE:
        return None
    G = np.zeros((0, n)) if data["G"] is None else data["G"].toarray()
    A = np.zeros((0, n)) if data["A"] is None else data["A"].toarray()
    P = data["P"].toarray()
    if G.shape[0]:
        rows = np.linalg.norm(G, axis=1)
        # Slacks in units of x, multipliers in units of the gradient.
        units = max(np.abs(P @ x).max(), np.abs(q.detach().numpy()).max()) / max(np.abs(x).max(), 1e-300)
        slack = np.asarray(data["h"]) - G @ x
        active = z * rows > units * slack / np.where(rows > 0, rows, 1.0)
    else:
        active = np.zeros(0, dtype=bool)
    if n + int(active.sum()) + y.size > 2 * _REFERENCE_SIZE:
        return None
    truth = reduced_kkt_gradients(P, G, A, x, y, z, active=active, x_bar=r)
    if truth.residual > 1e-9:
        return None
    # A gradient that vanishes is compared with 1e-8 of the movement that the curvature alone would allow.
    floor = 1e-8 * np.linalg.norm(r) / max(np.abs(P).max(), 1e-8)
    return float(np.linalg.norm(q.grad.numpy() - truth.q) / max(np.linalg.norm(truth.q), floor))


def test_no_crash_and_no_silent_error(shared_data: Path) -> None:
    paths = sorted((shared_data / "qp").glob("*/*.npz"))
    assert len(paths) == 76
    counts = {"solved": 0, "differentiable": 0, "checked": 0, "flagged": 0, "refused": 0}
    silent, lines = [], []
    for path in paths:
        try:
            solution, q, r, data = _solve(path)
        except QPError as error:
            counts["refused"] += 1
            lines.append(f"{path.stem:11s} {type(error).__name__}: {error}")
            continue
        certificate = solution.certificate.worst
        flags = sorted({warning.kind for warning in solution.warnings})
        error = None if flags else _error(solution, q, r, data)
        counts["solved"] += certificate <= 1e-7
        counts["flagged" if flags else "differentiable"] += 1
        counts["checked"] += error is not None
        lines.append(
            f"{path.stem:11s} n {q.numel():5d}  certificate {certificate:.0e}  "
            f"gradient error {'   -   ' if error is None else format(error, '.1e')}  {', '.join(flags)}"
        )
        assert certificate <= 1e-7, path.stem
        if error is not None and error > 1e-6:
            silent.append(path.stem)
    print("\n" + "\n".join([*lines, str(counts)]))
    assert not silent, silent
    assert counts["solved"] >= 0.9 * len(paths)
    assert counts["checked"] >= 40
