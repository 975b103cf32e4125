"""A limit of the user's own, by name: the same in every process, and looked at when it is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portfolio_dfl.allocation.limits import Limit, Limits
from portfolio_dfl.errors import AllocationError
from portfolio_dfl.execution.parts import build_part, find_part

__all__ = ["OwnLimit"]

# Arrays of one number an asset.
_ARRAYS = ("lower", "upper", "counted")


@dataclass(frozen=True)
class OwnLimit(Limit):
    """A limit ``package.module:Name``: a `Limit` made with options, or a function of the `Limits` that it changes.

    Which tickers there are, in the order of weights, it reads from ``limits.assets``. It is pickled by its name, and
    found again where it is unpickled.

    Parameters
    ----------
    name : str
    options : mapping

    Raises
    ------
    AllocationError
        If it cannot be imported, or the options or the signature do not fit.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = find_part("limit", self.name, {}, AllocationError)
        made = build_part("limit", self.name, found, self.options, AllocationError, takes=["limits"], method="apply")
        object.__setattr__(self, "limit", made)
        for said in ("turn", "replaces_long_only", "of_weights"):
            object.__setattr__(self, said, getattr(made, said, getattr(Limit, said)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, dict(self.options))

    def apply(self, limits: Limits) -> None:
        n_assets, others = limits.lower.shape[0], len(limits.groups)
        call = getattr(self.limit, "apply", self.limit)
        try:
            call(limits)
        except AllocationError as error:
            raise AllocationError(f"limit {self.name!r}: {error}") from error
        except Exception as error:
            raise AllocationError(f"limit {self.name!r} raised {type(error).__name__}: {error}") from error
        for said in _ARRAYS:
            array = np.asarray(getattr(limits, said))
            if array.shape != (n_assets,) or array.dtype.kind not in "fiu" or np.isnan(array).any():
                raise AllocationError(
                    f"limit {self.name!r} left {said} as {array!r}; one number for each of {n_assets} assets is needed"
                )
        for exposure, cap, label in limits.groups[others:]:
            if np.shape(exposure) != (n_assets,) or not np.isfinite(exposure).all() or np.isnan(cap):
                raise AllocationError(
                    f"limit {self.name!r} gave {label} exposures of shape {np.shape(exposure)} and the cap {cap}; "
                    f"finite numbers for {n_assets} assets and a cap are needed"
                )
