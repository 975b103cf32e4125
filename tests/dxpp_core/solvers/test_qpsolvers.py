"""Back ends of ``qpsolvers``: each ends, and where it was broken off tells no more than its certificate does."""

from __future__ import annotations

import pytest
import torch
from quadratic_programs import make_problem, random_qp

from dxpp_core import available_solvers


@pytest.mark.skipif("highs" not in available_solvers(), reason="HiGHS is not installed")
@pytest.mark.timeout(60)
def test_highs_ends_where_it_would_go_in_a_circle() -> None:
    """A program whose variables have units of their own, on which it never ends by itself."""
    a = random_qp(8, 3, 3186, equalities=2).arguments
    exponents = [0.5, 2.5, -1.7515617678666717, 0.0, 0.3333333333333333, 0.01, 0.1934771833147062, 0.999]
    units = 10.0 ** torch.tensor(exponents, dtype=torch.float64)
    lb, ub = torch.full((8,), 0.2).double(), torch.full((8,), 1.7).double()
    problem = make_problem(
        P=1e3 * units[:, None] * a["P"] * units, q=1e3 * units * a["q"], G=a["G"] * units, h=a["h"],
        A=a["A"] * units, b=a["b"], lb=lb / units, ub=ub / units,
    )  # fmt: skip
    found, expected = (units * problem.solve(solver=solver).x.detach() for solver in ("highs", "piqp"))
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-9)
