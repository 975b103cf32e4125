"""Batches of dense programs: every element is what it is alone, whatever runs beside it and whoever looks at it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic_programs import random_limits

from dxpp_core import InfeasibleError, QPSolution, solve_qp
from dxpp_core.reference import reduced_kkt_gradients

F64 = torch.float64
Data = dict[str, torch.Tensor]


def _batch(
    seed: int, batch: int, n: int, m: int, p: int, bounds: str = "none", *, own: tuple[str, ...] = ("q", "h")
) -> Data:
    """Feasible programs that share all arguments but their ``own``."""
    rng = np.random.default_rng(seed)
    inside = rng.normal(size=n)
    root = rng.normal(size=(n, n))
    data = {"P": root @ root.T / n + 0.1 * np.eye(n), "q": rng.normal(size=n)}
    data |= random_limits(rng, inside, m, p, bounds)
    for name in own:
        spread = np.zeros((batch, *data[name].shape))
        if name in ("q", "h", "ub"):
            spread += np.abs(rng.normal(size=spread.shape))
        elif name == "lb":
            spread -= np.abs(rng.normal(size=spread.shape))
        elif name == "P":
            spread += np.abs(rng.normal(size=(batch, 1, 1))) * np.eye(n)
        data[name] = data[name] + spread
    return {name: torch.from_numpy(value).requires_grad_() for name, value in data.items()}


def _gradients(found: QPSolution, data: Data) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    parts = [part for part in (found.x, found.y, found.z, found.z_box) if part.requires_grad]
    n = found.x.shape[-1]
    weights = [torch.randn(part.shape[-1], generator=generator, dtype=F64) for part in parts]
    assert n == weights[0].numel()
    loss = torch.stack([(part * weight).sum() for part, weight in zip(parts, weights, strict=True)]).sum()
    return torch.autograd.grad(loss, list(data.values()))


@pytest.fixture
def threads() -> Iterator[None]:
    """What is set here holds for this test."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([3, 10, 30, 60]),
    bounds=st.sampled_from(["none", "lower", "both"]),
)
def test_gradients_are_those_of_the_reduced_kkt_system(seed: int, n: int, bounds: str) -> None:
    data = _batch(seed, 4, n, n // 2, n // 5, bounds)
    found = solve_qp(**data)
    x_bar = torch.randn(4, n, generator=torch.Generator().manual_seed(1), dtype=F64)
    of_q, of_h = torch.autograd.grad(found.x, (data["q"], data["h"]), x_bar)
    empty = np.zeros((0, n))
    P, G, A = (data[name].detach().numpy() if name in data else empty for name in ("P", "G", "A"))
    for k in range(4):
        x, y, z, z_box = (part[k].detach().numpy() for part in (found.x, found.y, found.z, found.z_box))
        at_lower, at_upper = z_box < 0.0, z_box > 0.0
        expected = reduced_kkt_gradients(
            P, G, A, x, y, z, active=z > 0.0, at_lower=at_lower, at_upper=at_upper, x_bar=x_bar[k].numpy()
        )
        for gradient, exact in ((of_q[k], expected.q), (of_h[k], expected.h)):
            scale = max(1e-3, float(np.abs(exact).max()))
            assert float(np.abs(gradient.numpy() - exact).max()) <= 1e-11 * scale
    assert found.certificate.worst <= 1e-12


@pytest.mark.parametrize("own", [("q", "h"), ("P", "q"), ("lb", "ub"), ("P", "q", "h", "lb", "ub")])
def test_an_element_alone_is_bit_for_bit_what_it_is_in_a_batch(own: tuple[str, ...]) -> None:
    data = _batch(3, 7, 12, 6, 2, "both", own=own)
    together = solve_qp(**data)
    bars = torch.autograd.grad(together.x.square().sum(), [data[name] for name in own])
    for k in range(7):
        alone = {name: (part[k] if name in own else part).detach().requires_grad_() for name, part in data.items()}
        found = solve_qp(**alone)
        for name in ("x", "y", "z", "z_box"):
            assert torch.equal(getattr(found, name), getattr(together, name)[k]), name
        own_bars = torch.autograd.grad(found.x.square().sum(), [alone[name] for name in own])
        for bar, own_bar in zip(bars, own_bars, strict=True):
            assert torch.equal(bar[k], own_bar)


def test_the_number_of_threads_changes_no_bit(threads: None) -> None:
    data = _batch(5, 200, 40, 20, 5, "both")
    outcomes = []
    for count in (1, 2, 4):
        torch.set_num_threads(count)
        found = solve_qp(**data)
        outcomes.append([found.x, found.y, found.z, found.z_box, *_gradients(found, data)])
    for other in outcomes[1:]:
        for one, same in zip(outcomes[0], other, strict=True):
            assert torch.equal(one, same)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), batch=st.integers(1, 4), degenerate=st.booleans())
def test_who_looks_at_a_solution_changes_no_bit(seed: int, batch: int, degenerate: bool) -> None:
    data = _batch(seed, batch, 8, 4, 2, "both")
    if degenerate:  # a row given twice, and one that just touches the solution
        first = solve_qp(**{name: part.detach() for name, part in data.items()})
        G = torch.cat([data["G"].detach(), data["A"].detach()[:1], data["A"].detach()[:1]])
        touching = (first.x @ data["A"].detach()[0])[:, None].expand(batch, 2)
        data |= {"G": G.requires_grad_(), "h": torch.cat([data["h"].detach(), touching], 1).requires_grad_()}
    plain = _gradients(solve_qp(**data), data)
    found = solve_qp(**data)
    seen = (found.certificate, found.certificates, found.warnings, found.timings, found.iterations, found.direct)
    assert len(seen) == 6
    for one, same in zip(plain, _gradients(found, data), strict=True):
        assert torch.equal(one, same)


def test_diagonal_and_full_matrices_stand_side_by_side() -> None:
    data = {name: part.detach() for name, part in _batch(19, 3, 6, 3, 1, "both").items()}
    P = torch.stack([data["P"], torch.diag(data["P"].diagonal()), torch.zeros(6, 6, dtype=F64)])
    for chosen in ([0, 1], [1, 2], [0, 1, 2]):
        given = {name: part[: len(chosen)] if name in ("q", "h") else part for name, part in data.items()}
        found = solve_qp(**given | {"P": P[chosen]})
        for k, which in enumerate(chosen):
            alone = solve_qp(**data | {"P": P[which], "q": data["q"][k], "h": data["h"][k]})
            assert torch.allclose(found.x[k], alone.x, atol=1e-12)
        assert found.certificate.worst <= 1e-8


def test_an_infeasible_element_names_itself() -> None:
    data = {name: part.detach() for name, part in _batch(7, 6, 10, 4, 2, "both").items()}
    data["h"] = data["h"].clone()
    data["h"][4, 1] = -1e3
    with pytest.raises(InfeasibleError, match="4"):
        solve_qp(**data)


def test_only_elements_that_need_a_solver_get_one() -> None:
    n = 6
    one = torch.ones(n, dtype=F64)
    q = torch.randn(5, n, generator=torch.Generator().manual_seed(0), dtype=F64)
    # A point of the simplex with zeros: these are weakly active.
    q[2] = 0.0
    q[2, :2] = -1.0
    found = solve_qp(2.0 * torch.eye(n, dtype=F64), q, A=one[None], b=one[:1], lb=0.0 * one)
    assert found.direct.tolist() == [True, True, False, True, True]
    assert [warning.batch_element for warning in found.warnings] == [(2,)]


def test_gradients_of_shared_arguments_are_summed_over_the_batch() -> None:
    data = _batch(11, 6, 9, 5, 2, "both")
    together = _gradients(solve_qp(**data), data)
    totals = [torch.zeros_like(part) for part in data.values()]
    for k in range(6):
        alone = {
            name: (part[k] if name in ("q", "h") else part).detach().requires_grad_() for name, part in data.items()
        }
        for name, total, gradient in zip(data, totals, _gradients(solve_qp(**alone), alone), strict=True):
            (total[k] if name in ("q", "h") else total).add_(gradient)
    for one, total in zip(together, totals, strict=True):
        assert torch.allclose(one, total, rtol=1e-12, atol=1e-12)


def test_batch_dimensions_broadcast() -> None:
    data = {name: part.detach() for name, part in _batch(13, 6, 5, 3, 1, "both").items()}
    wide = data | {"q": data["q"].reshape(2, 3, 5), "h": data["h"][:3]}
    found = solve_qp(**wide)
    assert found.x.shape == (2, 3, 5)
    for i in range(2):
        for j in range(3):
            alone = solve_qp(**data | {"q": wide["q"][i, j], "h": wide["h"][j]})
            assert torch.equal(found.x[i, j], alone.x)


def test_programs_up_to_the_bound_need_no_solver_and_meet_a_fine_certificate() -> None:
    data = {name: part.detach() for name, part in _batch(17, 3, 150, 80, 20, "both").items()}
    found = solve_qp(**data)
    assert bool(found.direct.all())
    assert found.certificate.worst <= 1e-12
    assert torch.allclose(found.x, solve_qp(**data, solver="piqp").x, atol=1e-9)
