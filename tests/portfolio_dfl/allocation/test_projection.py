"""The nearest portfolio within limits: nearer than others, within them, and itself where it keeps to them already."""

from __future__ import annotations

import numpy as np
import pytest

from portfolio_dfl.allocation import BoxLimits, GrossLeverage, GroupLimits, TradeLimits
from portfolio_dfl.allocation.compliance import violations
from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.allocation.projection import nearest_weights
from portfolio_dfl.errors import AllocationError

LIMITS = (BoxLimits(-0.1, 0.4), GroupLimits((0, 1), upper=0.25), GrossLeverage(1.2), TradeLimits(0.001))


def test_it_is_within_the_limits_and_nearer_than_any_other() -> None:
    generator = np.random.default_rng(2)
    given = np.array([0.9, 0.3, 0.1, -0.5, 0.2])
    found = nearest_weights(given, LIMITS)
    collected = Limits.collect(5, LIMITS)
    assert all(amount.max() < 1e-10 for amount in violations(collected, found[None]).values())
    others = generator.dirichlet(np.ones(5), size=5000)
    broken = violations(collected, others)
    inside = np.max([*broken.values()], axis=0) == 0.0
    assert inside.sum() > 50
    assert (np.linalg.norm(others[inside] - given, axis=1) > np.linalg.norm(found - given)).all()


def test_a_portfolio_within_the_limits_stays() -> None:
    given = np.array([0.1, 0.1, 0.3, 0.3, 0.2])
    np.testing.assert_allclose(nearest_weights(given, LIMITS), given, atol=1e-10)


def test_limits_that_leave_no_portfolio_are_told() -> None:
    with pytest.raises(AllocationError, match="cannot be met together"):
        nearest_weights(np.full(5, 0.2), [GroupLimits((0, 1), lower=0.6), GroupLimits((2, 3), lower=0.6)])
