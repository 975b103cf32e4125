"""The limits that a configuration names by ticker, as those of the portfolio problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from portfolio_dfl.config.limits import OTHERS, BenchmarkConfig, LimitsConfig, RangeConfig
from portfolio_dfl.errors import AllocationError, ConfigError

if TYPE_CHECKING:
    from portfolio_dfl.allocation.limits import Limit
    from portfolio_dfl.config.sections import AllocationConfig

__all__ = ["build_limits", "require_known", "starting_weights"]


def build_limits(allocation: AllocationConfig, tickers: Sequence[str]) -> list[Limit]:
    """Limits of weights that plans obey beside long only.

    Raises
    ------
    ConfigError
        If a ticker is unknown, naming all of them, or no portfolio is fully invested within the limits.
    AllocationError
        If a limit of the user's own cannot be imported or made, or does not fit the tickers.
    """
    section = allocation.limits
    largest = allocation.max_weight
    if section == LimitsConfig():
        return [] if largest is None else _one_largest(largest, len(tickers))
    if largest is not None and section.max_weight is not None:
        raise ConfigError("allocation.max_weight and allocation.limits.max_weight say the same: give one of them")
    require_known(section, tickers)
    found = [*_boxes(section, largest, tickers), *_groups(section, tickers), *_leverage(section, tickers)]
    found += _exposures(section, tickers)
    if section.benchmark is not None:
        found += _benchmark(section.benchmark, tickers)
    return [*found, *_trades(section, tickers), *_own(section, tickers)]


def starting_weights(
    allocation: AllocationConfig, limits: Sequence[Limit], tickers: Sequence[str]
) -> tuple[float, ...] | None:
    """Weights that trainings and backtests start from; None for equal ones.

    Raises
    ------
    ConfigError
        If the limits leave no portfolio, or none that one trade leads to from equal weights, which are to stay.
    """
    if allocation.limits == LimitsConfig() and (not limits or allocation.repair == "none"):
        return None
    from portfolio_dfl.allocation.compliance import find_conflict, violations
    from portfolio_dfl.allocation.limits import Limits
    from portfolio_dfl.allocation.projection import nearest_weights
    from portfolio_dfl.allocation.refusals import check_limits

    equal = np.full(len(tickers), 1.0 / len(tickers))
    try:
        collected = Limits.collect(len(tickers), limits, tickers)
        check_limits(collected)
        if allocation.repair == "project":
            # A tracking error is that of a covariance, which is not known here: the benchmark itself has none.
            wanted = equal if collected.tracking_error is None else collected.tracking_error[0]
            if not violations(collected, equal[None]) and wanted is equal:
                return None
            return tuple(nearest_weights(wanted, limits, assets=tickers).tolist())
    except AllocationError as error:
        raise ConfigError(f"allocation.limits: {error}") from error
    conflict = find_conflict(collected, equal, allocation.first_turnover_limit)
    if conflict is not None:
        raise ConfigError(
            "allocation.limits: trainings and backtests start from equal weights, from which one trade leads to no "
            f"allowed portfolio, {conflict}; set allocation.repair=project to start from the nearest weights within "
            "the limits, or raise allocation.turnover_limit"
        )
    return None


def _one_largest(largest: float, n_assets: int) -> list[Limit]:
    from portfolio_dfl.allocation.limits import BoxLimits

    if n_assets * largest < 1.0 - 1e-12:
        raise ConfigError(
            f"allocation.max_weight={largest:g} leaves {n_assets} assets with {n_assets * largest:.4g} of the wealth "
            f"at most; raise it to {1.0 / n_assets:.4g} or more, use more data.tickers, or set it to null"
        )
    return [BoxLimits(0.0, largest)]


def _boxes(section: LimitsConfig, largest: float | None, tickers: Sequence[str]) -> list[Limit]:
    from portfolio_dfl.allocation.limits import BoxLimits

    highest = section.max_weight if largest is None else largest
    if section.min_weight is None and highest is None:
        return []
    lows = _each(section.min_weight, tickers, 0.0)
    if section.cash is not None and not (isinstance(section.min_weight, dict) and section.cash in section.min_weight):
        lows[tickers.index(section.cash)] = 0.0  # a debt is asked for by name
    highs = _each(highest, tickers, float("inf"))
    if section.cash is not None and not (isinstance(highest, dict) and section.cash in highest):
        highs[tickers.index(section.cash)] = float("inf")
    crossed = [
        f"{ticker} (at least {low:g}, at most {high:g})"
        for ticker, low, high in zip(tickers, lows, highs, strict=True)
        if low > high
    ]
    if crossed:
        raise ConfigError(f"allocation.limits: no weight is left for {', '.join(crossed)}")
    return [BoxLimits(tuple(lows), tuple(highs))]


def _groups(section: LimitsConfig, tickers: Sequence[str]) -> list[Limit]:
    from portfolio_dfl.allocation.limits import GroupLimits

    belongs = section.group_of if isinstance(section.group_of, dict) else {}
    if isinstance(section.group_of, str):
        raise ConfigError(f"allocation.limits.group_of, {section.group_of}, was not read")
    named = [name for name in section.groups if name != OTHERS]
    columns = list(dict.fromkeys(belongs[ticker] for ticker in tickers if ticker in belongs))
    found: list[Limit] = []
    for name in [*named, *(group for group in columns if OTHERS in section.groups and group not in named)]:
        group = section.groups.get(name) or section.groups[OTHERS]
        members = (
            [ticker for ticker in tickers if belongs.get(ticker) == name] if group.tickers is None else group.tickers
        )
        if not members:
            nearest = get_close_matches(name, columns, n=1)
            advice = f"the nearest is {nearest[0]}" if nearest else f"there are {', '.join(columns)}"
            raise ConfigError(f"allocation.limits.groups: no ticker is in group {name!r} by group_of; {advice}")
        low = float("-inf") if group.min is None else group.min
        high = float("inf") if group.max is None else group.max
        found.append(GroupLimits(tuple(tickers.index(ticker) for ticker in members), low, high, name))
    return found


def _leverage(section: LimitsConfig, tickers: Sequence[str]) -> list[Limit]:
    from portfolio_dfl.allocation.exposure import GrossLeverage, NetExposure
    from portfolio_dfl.allocation.limits import CashAsset

    found: list[Limit] = []
    if section.cash is not None:
        found.append(CashAsset(tickers.index(section.cash)))
    if section.gross is not None:
        found.append(GrossLeverage(section.gross))
    net = section.net
    if isinstance(net, RangeConfig):
        found.append(
            NetExposure(
                float("-inf") if net.min is None else net.min,
                float("inf") if net.max is None else net.max,
            )
        )
    elif net is not None:
        found.append(NetExposure(net, net))
    return found


def _exposures(section: LimitsConfig, tickers: Sequence[str]) -> list[Limit]:
    from portfolio_dfl.allocation.limits import ExposureLimits

    found: list[Limit] = []
    for name, exposure in section.exposures.items():
        values = exposure.values
        if isinstance(values, str):
            raise ConfigError(f"allocation.limits.exposures.{name}.values, {values}, was not read")
        lacking = [ticker for ticker in tickers if ticker not in values and OTHERS not in values]
        if lacking:
            raise ConfigError(
                f"allocation.limits.exposures.{name} has no value for {', '.join(lacking)}: give one to each "
                "ticker, or '*' to all others"
            )
        low = float("-inf") if exposure.min is None else exposure.min
        high = float("inf") if exposure.max is None else exposure.max
        found.append(ExposureLimits(tuple(_each(values, tickers, 0.0)), low, high, name))
    return found


def _benchmark(section: BenchmarkConfig, tickers: Sequence[str]) -> list[Limit]:
    from portfolio_dfl.allocation.limits import ActiveShare, BenchmarkBand, TrackingCost
    from portfolio_dfl.allocation.tracking_error import TrackingErrorLimit

    given = {section.ticker: 1.0} if section.weights is None else section.weights
    weights = tuple(given.get(ticker, 0.0) for ticker in tickers)
    found: list[Limit] = []
    if section.band is not None:
        found.append(BenchmarkBand(weights, tuple(_each(section.band, tickers, float("inf")))))
    if section.active_share is not None:
        found.append(ActiveShare(weights, section.active_share))
    if section.tracking_error is not None:
        found.append(TrackingErrorLimit(weights, section.tracking_error))
    if section.tracking_aversion:
        found.append(TrackingCost(weights, section.tracking_aversion))
    return found


def _trades(section: LimitsConfig, tickers: Sequence[str]) -> list[Limit]:
    from portfolio_dfl.allocation.trading import NoTrade, TradeLimits

    found: list[Limit] = []
    if section.max_trade is not None:
        found.append(TradeLimits(tuple(_each(section.max_trade, tickers, float("inf")))))
    if section.no_trade:
        found.append(NoTrade(tuple(tickers.index(ticker) for ticker in section.no_trade)))
    return found


def _own(section: LimitsConfig, tickers: Sequence[str]) -> list[Limit]:
    """Limits of the user's own, each tried alone: one that does not fit is heard of now."""
    from portfolio_dfl.allocation.limits import Limits
    from portfolio_dfl.allocation.own_limit import OwnLimit

    found: list[Limit] = [OwnLimit(part.name, part.options) for part in section.own]
    for limit in found:
        Limits.collect(len(tickers), [limit], tickers)
    return found


def _each(value: float | Mapping[str, float] | None, tickers: Sequence[str], none: float) -> list[float]:
    """A number for each ticker; ``none`` where nothing is said."""
    if isinstance(value, Mapping):
        others = value.get(OTHERS, none)
        return [float(value.get(ticker, others)) for ticker in tickers]
    return [none if value is None else float(value)] * len(tickers)


def require_known(section: LimitsConfig, tickers: Sequence[str]) -> None:
    """Raise ConfigError for tickers that the prices do not have, all of them at once."""
    named: dict[str, Iterable[str]] = {
        key: value
        for key in ("min_weight", "max_weight", "max_trade")
        if isinstance(value := getattr(section, key), dict)
    }
    named |= {f"groups.{name}.tickers": group.tickers or [] for name, group in section.groups.items()}
    named |= {
        f"exposures.{name}.values": exposure.values
        for name, exposure in section.exposures.items()
        if isinstance(exposure.values, dict)
    }
    named |= {"cash": [] if section.cash is None else [section.cash], "no_trade": section.no_trade}
    benchmark = section.benchmark
    if benchmark is not None:
        named |= {
            "benchmark.ticker": [] if benchmark.ticker is None else [benchmark.ticker],
            "benchmark.weights": benchmark.weights or {},
            "benchmark.band": benchmark.band if isinstance(benchmark.band, dict) else {},
        }
    known = {*tickers, OTHERS}
    unknown = []
    for key, names in named.items():
        for name in names:
            if name not in known:
                nearest = get_close_matches(name, tickers, n=1)
                unknown.append(f"{name} in {key}" + (f" (the nearest is {nearest[0]})" if nearest else ""))
    if unknown:
        raise ConfigError(f"allocation.limits names tickers without prices: {', '.join(unknown)}")
    if isinstance(section.group_of, dict) and any(group.tickers is None for group in section.groups.values()):
        lacking = [ticker for ticker in tickers if ticker not in section.group_of]
        if lacking:
            raise ConfigError(
                f"allocation.limits.group_of says no group of {', '.join(lacking)}: name one for each ticker"
            )
