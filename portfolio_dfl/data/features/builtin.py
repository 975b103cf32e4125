"""Features by name, made from returns: each value from the returns of a window that ends at its date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from portfolio_dfl.data.features.table import Missing, Values
from portfolio_dfl.errors import DataError
from portfolio_dfl.scalars import require_whole

__all__ = ["BUILTIN", "BuiltinFeature"]

# Sessions whose windows are looked at together, so that long histories of many assets fit in memory.
_CHUNK = 256


@dataclass(frozen=True)
class _Part:
    """One column: a function of windows of returns [B, W, N], their length, and whether it has a value an asset."""

    name: str
    window: int
    values: Callable[[Values], Values]


def _windows(name: str, windows: Sequence[int] | int, least: int) -> list[int]:
    found = [windows] if isinstance(windows, int) else list(windows)
    for window in found:
        require_whole(DataError, f"windows of {name}", window, least)
    if not found or len(set(found)) < len(found):
        raise DataError(f"windows of {name} must be different numbers of sessions, one at least; got {found}")
    return found


def _compounded(returns: Values) -> Values:
    grown: Values = np.prod(1.0 + returns, axis=1) - 1.0
    return grown


def _momentum(tickers: Sequence[str], windows: Sequence[int] | int = (20, 60, 120), skip: int = 0) -> list[_Part]:
    """Return over the last `windows` sessions without the newest `skip` of them (Jegadeesh and Titman, 1993)."""
    require_whole(DataError, "skip of momentum", skip, 0)
    found = _windows("momentum", windows, skip + 1)
    return [_Part(f"{days}", days, lambda r: _compounded(r[:, : r.shape[1] - skip])) for days in found]


def _reversal(tickers: Sequence[str], windows: Sequence[int] | int = 5) -> list[_Part]:
    """Minus the return of the last `windows` sessions (Jegadeesh, 1990)."""
    return [_Part(f"{days}", days, lambda r: -_compounded(r)) for days in _windows("reversal", windows, 1)]


def _volatility(tickers: Sequence[str], windows: Sequence[int] | int = 20) -> list[_Part]:
    """Standard deviation (ddof = 1) of daily returns over the last `windows` sessions."""
    return [_Part(f"{days}", days, lambda r: r.std(axis=1, ddof=1)) for days in _windows("volatility", windows, 2)]


def _wealth(returns: Values) -> Values:
    start = np.ones((len(returns), 1, returns.shape[2]))
    grown: Values = np.concatenate([start, np.cumprod(1.0 + returns, axis=1)], axis=1)
    return grown


def _drawdown(tickers: Sequence[str], windows: Sequence[int] | int = 120) -> list[_Part]:
    """Deepest fall from an earlier high within the last `windows` sessions, at most 0."""

    def deepest(returns: Values) -> Values:
        wealth = _wealth(returns)
        fall: Values = (wealth / np.maximum.accumulate(wealth, axis=1) - 1.0).min(axis=1)
        return fall

    return [_Part(f"{days}", days, deepest) for days in _windows("drawdown", windows, 1)]


def _distance_from_high(tickers: Sequence[str], windows: Sequence[int] | int = 250) -> list[_Part]:
    """Price over its high of the last `windows` sessions, minus 1 (George and Hwang, 2004)."""

    def distance(returns: Values) -> Values:
        wealth = _wealth(returns)
        below: Values = wealth[:, -1] / wealth.max(axis=1) - 1.0
        return below

    return [_Part(f"{days}", days, distance) for days in _windows("distance_from_high", windows, 1)]


def _beta(tickers: Sequence[str], windows: Sequence[int] | int = 120, market: str | None = None) -> list[_Part]:
    """Slope of returns on those of the `market`, a ticker or the mean of all, over the last `windows` sessions."""
    if market is not None and market not in tickers:
        raise DataError(f"market of beta is {market}, which is none of the tickers: {', '.join(tickers)}")
    place = None if market is None else list(tickers).index(market)

    def slope(returns: Values) -> Values:
        centred = returns - returns.mean(axis=1, keepdims=True)
        of_market = centred.mean(axis=2) if place is None else centred[:, :, place]
        beta: Values = (centred * of_market[:, :, None]).sum(axis=1) / np.square(of_market).sum(axis=1)[:, None]
        return beta

    return [_Part(f"{days}", days, slope) for days in _windows("beta", windows, 3)]


#: Features by asset made from returns, by name; ``day_of_month`` is of the date alone.
_BY_ASSET: Mapping[str, Callable[..., list[_Part]]] = MappingProxyType(
    {
        "momentum": _momentum,
        "reversal": _reversal,
        "volatility": _volatility,
        "drawdown": _drawdown,
        "beta": _beta,
        "distance_from_high": _distance_from_high,
    }
)

#: Names of built-in features.
BUILTIN: tuple[str, ...] = (*_BY_ASSET, "day_of_month")


@dataclass(frozen=True)
class BuiltinFeature:
    """A feature made from returns up to its date.

    Parameters
    ----------
    name : str
        Of the feature, in messages.
    kind : str
        One of :data:`BUILTIN`.
    tickers : sequence of str
    options : mapping
        ``windows`` (sessions, one or several), ``skip`` of momentum, ``market`` of beta.

    Raises
    ------
    DataError
        If the kind is unknown or the options do not fit.
    """

    name: str
    kind: str
    tickers: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    missing: Missing = "fail"

    def __post_init__(self) -> None:
        if self.kind not in BUILTIN:
            known = ", ".join(BUILTIN)
            raise DataError(f"feature {self.name}: no built-in feature is named {self.kind!r}; there are {known}")
        self._parts()

    def _parts(self) -> list[_Part]:
        if self.kind == "day_of_month":
            if self.options:
                raise DataError(f"feature {self.name}: day_of_month takes no options, not {dict(self.options)}")
            return []
        try:
            return _BY_ASSET[self.kind](self.tickers, **self.options)
        except TypeError as error:
            raise DataError(f"feature {self.name}: {self.kind} does not take {dict(self.options)}: {error}") from error
        except DataError as error:
            raise DataError(f"feature {self.name}: {error}") from error

    @property
    def by_asset(self) -> bool:
        """Whether there is a value a ticker."""
        return self.kind != "day_of_month"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its features."""
        return tuple(part.name for part in self._parts()) if self.by_asset else ("day",)

    @property
    def reach(self) -> int:
        """Number of returns that a value of one date needs."""
        return max((part.window for part in self._parts()), default=1)

    def known(self, returns: pd.DataFrame, last: int) -> tuple[Values, np.ndarray]:
        """Values at the closes of the last sessions, as of a table; NaN where there are too few returns."""
        dates = pd.DatetimeIndex(returns.index[len(returns) - last :])
        if not self.by_asset:
            day = dates.day.to_numpy(np.float64)[:, None, None]
            return day, np.zeros(day.shape, dtype=np.int64)
        parts = self._parts()
        numbers = returns.to_numpy(np.float64)
        values = np.full((last, numbers.shape[1], len(parts)), np.nan)
        for column, part in enumerate(parts):
            first = max(len(numbers) - last, part.window - 1)
            if first >= len(numbers):
                continue
            views = np.lib.stride_tricks.sliding_window_view(
                numbers[first - part.window + 1 :], part.window, axis=0
            ).swapaxes(1, 2)
            place = first - (len(numbers) - last)
            for begin in range(0, len(views), _CHUNK):
                # A contiguous copy: every value has the bits that its window alone would give.
                chunk = np.ascontiguousarray(views[begin : begin + _CHUNK])
                values[place + begin : place + begin + len(chunk), :, column] = part.values(chunk)
        return values, np.where(np.isnan(values), -1, 0)
