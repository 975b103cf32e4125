"""Optional limits and costs of the portfolio layer; each is one object, and any number of them compose.

Bounds of single weights (`BoxLimits`, `BenchmarkBand`), cash and tracking cost change numbers of the problem; limits
that couple weights (`GroupLimits`, `ExposureLimits`, `ActiveShare`) add rows to it. Limits of leverage and of single
trades are in `allocation.exposure` and `allocation.trading`, that of the tracking error in `allocation.tracking_error`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from portfolio_dfl.errors import AllocationError
from portfolio_dfl.scalars import require_number, require_whole

__all__ = [
    "ActiveShare",
    "BenchmarkBand",
    "BoxLimits",
    "CashAsset",
    "ExposureLimits",
    "GroupLimits",
    "Limit",
    "Limits",
    "TrackingCost",
    "append_cash",
    "asset_vector",
    "benchmark_weights",
    "require_benchmark",
]

_Array = NDArray[np.float64]

# Roundings a number may be wrong by, and that of float64.
_ROUNDINGS = 4.0
_DOUBLE = float(np.finfo(np.float64).eps)
_LARGEST = float(np.finfo(np.float64).max)


def _rounding(value: object) -> float:
    """Relative rounding with which numbers are known: that of their dtype."""
    if isinstance(value, Tensor):
        return torch.finfo(value.dtype).eps if value.dtype.is_floating_point else 0.0
    dtype = np.asarray(value).dtype
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0


def _numbers(value: object) -> Any:
    return value.double().numpy(force=True) if isinstance(value, Tensor) else value


def asset_vector(name: str, value: float | Sequence[float], n_assets: int) -> _Array:
    """One number for all assets, or one for each."""
    # A copy: the caller's own numbers may change later.
    array = np.array(_numbers(value), dtype=np.float64)
    if array.ndim == 0:
        array = np.full(n_assets, float(array))
    if array.shape != (n_assets,):
        raise AllocationError(f"{name} has {array.size} entries for {n_assets} assets: give one for each, or a number")
    if np.isnan(array).any():
        raise AllocationError(f"{name} holds NaN at asset {int(np.flatnonzero(np.isnan(array))[0])}")
    return array


def benchmark_weights(value: Sequence[float], n_assets: int) -> _Array:
    """Weights of a benchmark, summing to 1 but for the rounding of the dtype that they came in."""
    array = asset_vector("benchmark", value, n_assets)
    total, rounding = array.sum(), _rounding(value)
    if abs(total - 1.0) > max(1e-8, _ROUNDINGS * n_assets * rounding):
        raise AllocationError(f"the benchmark's weights sum to {total:.9g}; they must sum to 1")
    return array / total if rounding > _DOUBLE else array


def require_benchmark(limit: str, value: Sequence[float]) -> None:
    """Refuse what are no weights of a benchmark; ``limit`` names who asks."""
    require_number(AllocationError, f"{limit}.benchmark", _numbers(value))
    benchmark_weights(value, int(np.size(_numbers(value))))


def _require_bounds(name: str, lower: object, upper: object) -> None:
    """Lower bounds below upper ones, but for rounding; where one is infinite, on its own side."""
    lows, highs = _numbers(lower), _numbers(upper)
    require_number(AllocationError, f"{name}: lower limit", lows, most=_LARGEST, infinite=True)
    require_number(AllocationError, f"{name}: upper limit", highs, least=-_LARGEST, infinite=True)
    try:
        low, high = np.broadcast_arrays(np.asarray(lows, np.float64), np.asarray(highs, np.float64))
    except ValueError:
        raise AllocationError(f"{name}: {np.size(lows)} lower and {np.size(highs)} upper limits") from None
    share = _ROUNDINGS * low.size * max(_rounding(lower), _rounding(upper))
    with np.errstate(invalid="ignore"):
        crossed = np.flatnonzero(low - high > share * np.maximum(np.abs(low), np.abs(high)))
    if crossed.size:
        i = int(crossed[0])
        raise AllocationError(f"{name}: lower limit {low.flat[i]:g} exceeds upper limit {high.flat[i]:g}")


@dataclass
class Limits:
    """What all limits of a layer amount to, for N assets.

    ``lower``, ``upper`` [N]: bounds of weights; ``counted`` [N]: 1 for assets whose trades count towards turnover and
    cost, which are all but cash; ``assets``: their names in errors; ``gross``: the largest Σ|w| of counted assets,
    infinite for none; ``largest_trade`` [N]: of |w_s − w_{s−1}|, infinite where there is none; ``tracking_error``: a
    benchmark [N] and the largest √((w − benchmark)ᵀΣ(w − benchmark)); ``groups``: exposures [N], a cap and a name
    each, exposureᵀw ≤ cap; ``shares``: a benchmark [N] and a cap on ‖w − benchmark‖₁ each; ``tracking``: a benchmark
    and an aversion each; ``rounding``: that of the bounds, relative.
    """

    lower: _Array
    upper: _Array
    counted: _Array
    assets: tuple[str, ...] | None = None
    gross: float = float("inf")
    largest_trade: _Array | None = None
    tracking_error: tuple[_Array, float] | None = None
    groups: list[tuple[_Array, float, str]] = field(default_factory=list)
    shares: list[tuple[_Array, float]] = field(default_factory=list)
    tracking: list[tuple[_Array, float]] = field(default_factory=list)
    rounding: float = 0.0

    @classmethod
    def collect(cls, n_assets: int, limits: Sequence[Limit], assets: Sequence[str] | None = None) -> Limits:
        """Long-only by default; bounds of several limits intersect. The assets' names, if given, show in errors."""
        if assets is not None and len(assets) != n_assets:
            raise AllocationError(f"assets names {len(assets)}, there are {n_assets}")
        explicit = any(limit.replaces_long_only for limit in limits)
        lowest = -np.inf if explicit else 0.0
        names = None if assets is None else tuple(assets)
        found = cls(np.full(n_assets, lowest), np.full(n_assets, np.inf), np.ones(n_assets), names)
        for limit in sorted(limits, key=lambda limit: limit.turn):
            limit.apply(found)
        if found.rounding > _DOUBLE:
            found._take_back_rounding()
        return found

    def _take_back_rounding(self) -> None:
        """Bounds in lower precision than float64 that miss one another, or the sum 1, by their rounding: not so."""
        share = _ROUNDINGS * self.lower.shape[0] * self.rounding
        with np.errstate(invalid="ignore"):
            beyond = self.lower - self.upper
            crossed = (beyond > 0.0) & (beyond <= share * np.maximum(np.abs(self.lower), np.abs(self.upper)))
        self.upper = np.where(crossed, self.lower, self.upper)
        most, least = self.upper.sum(), self.lower.sum()
        if 1.0 - share <= most < 1.0:
            self.upper = self.upper + (1.0 - most) / self.upper.shape[0]
        if 1.0 < least <= 1.0 + share:
            self.lower = self.lower - (least - 1.0) / self.lower.shape[0]

    def raise_lower(self, lower: _Array) -> None:
        """Intersect with w ≥ lower."""
        self.lower = np.maximum(self.lower, lower)

    def cut_upper(self, upper: _Array) -> None:
        """Intersect with w ≤ upper."""
        self.upper = np.minimum(self.upper, upper)

    def name(self, asset: int) -> str:
        """An asset in errors: its ticker, or its number."""
        return f"asset {asset}" if self.assets is None else self.assets[asset]

    @property
    def shorted(self) -> NDArray[np.intp]:
        """Assets that may be held short, cash not among them."""
        return np.flatnonzero((self.lower < 0.0) & (self.counted > 0.0))

    @property
    def factored(self) -> bool:
        """Whether all of them are bounds, groups, cash and tracking costs, which factor risk is planned with."""
        further = (
            self.shares or self.gross < np.inf or self.largest_trade is not None or self.tracking_error is not None
        )
        return not further


class Limit:
    """One optional piece of the problem: it writes what it asks for into a `Limits`.

    Limits are applied by their ``turn``, those of the same turn in the order in which they are given. One that says
    the smallest weight of every asset ``replaces_long_only``; one that concerns trades or the covariance is not
    ``of_weights``, which is to say of one portfolio alone.
    """

    turn: ClassVar[int] = 0
    replaces_long_only: ClassVar[bool] = False
    of_weights: ClassVar[bool] = True

    def apply(self, limits: Limits) -> None:
        """Add this limit.

        Raises
        ------
        AllocationError
            If it does not fit the assets.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class BoxLimits(Limit):
    """lower ≤ w_s ≤ upper at every stage; numbers, or one per asset. It replaces the default w ≥ 0.

    Infinite bounds mean none; equal bounds fix a weight.
    """

    lower: float | Sequence[float] = 0.0
    upper: float | Sequence[float] = float("inf")

    replaces_long_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _require_bounds("BoxLimits", self.lower, self.upper)

    def apply(self, limits: Limits) -> None:
        n = limits.lower.shape[0]
        limits.rounding = max(limits.rounding, _rounding(self.lower), _rounding(self.upper))
        limits.raise_lower(asset_vector("BoxLimits.lower", self.lower, n))
        limits.cut_upper(asset_vector("BoxLimits.upper", self.upper, n))


@dataclass(frozen=True)
class BenchmarkBand(Limit):
    """|w_s − benchmark| ≤ deviation for every asset; deviation is a number, or one per asset."""

    benchmark: Sequence[float]
    deviation: float | Sequence[float]

    def __post_init__(self) -> None:
        require_benchmark("BenchmarkBand", self.benchmark)
        require_number(AllocationError, "BenchmarkBand.deviation", _numbers(self.deviation), least=0.0, infinite=True)

    def apply(self, limits: Limits) -> None:
        n = limits.lower.shape[0]
        benchmark, deviation = (
            benchmark_weights(self.benchmark, n),
            asset_vector("BenchmarkBand.deviation", self.deviation, n),
        )
        limits.raise_lower(benchmark - deviation)
        limits.cut_upper(benchmark + deviation)


@dataclass(frozen=True)
class GroupLimits(Limit):
    """lower ≤ Σ_{i in group} w_{s,i} ≤ upper at every stage, e.g. for a sector.

    Examples
    --------
    >>> import torch
    >>> from portfolio_dfl import GroupLimits, MultiPeriodMeanVariance
    >>> bonds = GroupLimits(assets=[1, 2], lower=0.5, name="bonds")
    >>> layer = MultiPeriodMeanVariance(n_assets=3, horizon=1, limits=[bonds])
    >>> forecast = torch.tensor([[[0.1, 0.0, 0.0]]], dtype=torch.float64)
    >>> held = torch.full((1, 3), 1 / 3, dtype=torch.float64)
    >>> layer(forecast, 1e-2 * torch.eye(3, dtype=torch.float64)[None], held)
    tensor([[[0.5000, 0.2500, 0.2500]]], dtype=torch.float64)
    """

    assets: Sequence[int]
    lower: float = float("-inf")
    upper: float = float("inf")
    name: str = "group"

    def __post_init__(self) -> None:
        if not len(self.assets):
            raise AllocationError(f"group {self.name!r} holds no asset")
        for asset in self.assets:
            require_whole(AllocationError, f"asset of group {self.name!r}", asset, 0)
        _require_bounds(f"group {self.name!r}", self.lower, self.upper)

    def apply(self, limits: Limits) -> None:
        n = limits.lower.shape[0]
        wrong = [asset for asset in self.assets if asset >= n]
        if wrong:
            raise AllocationError(f"group {self.name!r} names asset {wrong[0]}, but there are {n}")
        member = np.zeros(n)
        member[list(self.assets)] = 1.0
        if self.upper < np.inf:
            limits.groups.append((member, self.upper, f"group {self.name!r}"))
        if self.lower > -np.inf:
            limits.groups.append((-member, -self.lower, f"group {self.name!r}"))


@dataclass(frozen=True)
class ExposureLimits(Limit):
    """lower ≤ Σ_i exposures_i w_{s,i} ≤ upper at every stage, e.g. for a beta, a duration or a score."""

    exposures: Sequence[float]
    lower: float = float("-inf")
    upper: float = float("inf")
    name: str = "exposure"

    def __post_init__(self) -> None:
        exposures = self._vector(int(np.size(_numbers(self.exposures))))
        if not np.isfinite(exposures).all():
            place = int(np.flatnonzero(~np.isfinite(exposures))[0])
            raise AllocationError(f"exposure {self.name!r} is {exposures[place]:g} at asset {place}; it must be finite")
        if not self.lower <= self.upper:
            raise AllocationError(f"exposure {self.name!r}: no number lies between {self.lower:g} and {self.upper:g}")
        _require_bounds(f"exposure {self.name!r}", self.lower, self.upper)

    def _vector(self, n_assets: int) -> _Array:
        return asset_vector(f"ExposureLimits {self.name!r}", self.exposures, n_assets)

    def apply(self, limits: Limits) -> None:
        exposures = self._vector(limits.lower.shape[0])
        if self.upper < np.inf:
            limits.groups.append((exposures, self.upper, f"exposure {self.name!r}"))
        if self.lower > -np.inf:
            limits.groups.append((-exposures, -self.lower, f"exposure {self.name!r}"))


@dataclass(frozen=True)
class ActiveShare(Limit):
    """½ ‖w_s − benchmark‖₁ ≤ limit at every stage: how much of the portfolio may differ from the benchmark."""

    benchmark: Sequence[float]
    limit: float

    def __post_init__(self) -> None:
        require_benchmark("ActiveShare", self.benchmark)
        require_number(AllocationError, "ActiveShare.limit", self.limit, above=0.0, infinite=True)

    def apply(self, limits: Limits) -> None:
        limits.shares.append((benchmark_weights(self.benchmark, limits.lower.shape[0]), 2.0 * self.limit))


@dataclass(frozen=True)
class CashAsset(Limit):
    """Asset number ``asset`` is cash: its trades count neither towards turnover nor towards cost.

    Give it zero variance and its riskless return (`append_cash` does); it is held long unless `BoxLimits` say
    otherwise.
    """

    asset: int = -1

    # Other limits ask which assets are cash.
    turn: ClassVar[int] = -1

    def __post_init__(self) -> None:
        require_whole(AllocationError, "CashAsset.asset", self.asset, -sys.maxsize)

    def apply(self, limits: Limits) -> None:
        n = limits.lower.shape[0]
        if not -n <= self.asset < n:
            raise AllocationError(f"CashAsset names asset {self.asset}, but there are {n}")
        limits.counted[self.asset] = 0.0


@dataclass(frozen=True)
class TrackingCost(Limit):
    """Adds aversion/2 (w_s − benchmark)ᵀΣ_s (w_s − benchmark) to the objective: squared tracking error."""

    benchmark: Sequence[float]
    aversion: float

    of_weights: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_benchmark("TrackingCost", self.benchmark)
        require_number(AllocationError, "TrackingCost.aversion", self.aversion, least=0.0)

    def apply(self, limits: Limits) -> None:
        limits.tracking.append((benchmark_weights(self.benchmark, limits.lower.shape[0]), self.aversion))


def append_cash(expected_returns: Tensor, covariance: Tensor, rate: float | Tensor = 0.0) -> tuple[Tensor, Tensor]:
    """Put a riskless asset behind N risky ones.

    Parameters
    ----------
    expected_returns : Tensor [B, H, N]
    covariance : Tensor [..., N, N]
    rate : float or Tensor broadcastable to [B, H]
        Riskless return per stage.

    Returns
    -------
    (Tensor [B, H, N + 1], Tensor [..., N + 1, N + 1])
    """
    riskless = torch.as_tensor(rate, dtype=expected_returns.dtype).expand(expected_returns.shape[:-1])
    padded = torch.nn.functional.pad(covariance, (0, 1, 0, 1))
    return torch.cat([expected_returns, riskless.unsqueeze(-1)], dim=-1), padded
