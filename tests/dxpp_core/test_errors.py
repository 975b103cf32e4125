"""The family of errors."""

from __future__ import annotations

import dxpp_core
from dxpp_core import (
    ProblemError,
    QPError,
    ShapeError,
)


def test_every_error_has_one_base() -> None:
    names = [name for name in dir(dxpp_core) if name.endswith("Error")]
    assert len(names) >= 12
    assert all(issubclass(getattr(dxpp_core, name), QPError) for name in names)
    assert issubclass(ShapeError, ProblemError)
    assert issubclass(ShapeError, ValueError)
