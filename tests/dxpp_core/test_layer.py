"""The surface: what is accepted, what is refused and how, dtypes, transforms, batches, threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic_programs import make_problem, random_qp

from dxpp_core import (
    ProblemError,
    QPLayer,
    solve_qp,
)

F64 = torch.float64


def test_the_stationarity_of_the_returned_point() -> None:
    a = random_qp(9, 4, 3).arguments
    s = solve_qp(**a, lb=torch.full((9,), 0.3, dtype=F64), ub=torch.full((9,), 1.5, dtype=F64))
    left = a["P"] @ s.x + a["q"] + a["A"].T @ s.y + a["G"].T @ s.z + s.z_box
    assert float(left.abs().max()) < 1e-11
    assert float(s.z.min()) >= 0.0
    assert s.certificate.worst < 1e-12
    assert s.status == "solved"
    assert s.iterations.item() > 0
    assert s.direct.item()
    assert s.timings.polish > 0.0
    assert solve_qp(a["P"], a["q"], solver="piqp").timings.solve > 0.0


def test_active_bounds_are_met_exactly() -> None:
    a = random_qp(9, 4, 3).arguments
    lb = torch.full((9,), 0.3, dtype=F64)
    s = solve_qp(a["P"], a["q"], lb=lb)
    assert float((s.x - lb).min()) == 0.0


def test_the_module_passes_its_options_on() -> None:
    layer = QPLayer(solver="clarabel", tolerance=1e-7)
    q = torch.tensor([-1.0, -2.0], dtype=F64, requires_grad=True)
    x = layer(torch.eye(2, dtype=F64), q, lb=torch.zeros(2, dtype=F64)).x
    torch.testing.assert_close(x.detach(), torch.tensor([1.0, 2.0], dtype=F64))
    assert "clarabel" in repr(layer)
    assert not list(layer.parameters())


@pytest.mark.parametrize("option", [{"delta": 0.0}, {"delta": float("nan")}, {"zeta": 0.0}, {"tolerance": "a"}])
def test_options_that_make_no_sense(option: dict[str, object]) -> None:
    with pytest.raises(ProblemError, match=next(iter(option))):
        make_problem(P=np.eye(2), q=[0.0, 0.0]).solve(**option)
