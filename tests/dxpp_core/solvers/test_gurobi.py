"""Gurobi: what its licence allows."""

from __future__ import annotations

import pytest
import torch

from dxpp_core import (
    SolverLimitError,
    solve_qp,
)

F64 = torch.float64


def test_gurobi_says_what_its_licence_allows() -> None:
    n = 2 * 7 * 15
    with pytest.raises(SolverLimitError, match=r"200 variables.*piqp"):
        solve_qp(torch.eye(n, dtype=F64), torch.ones(n, dtype=F64), lb=torch.zeros(n, dtype=F64), solver="gurobi")
