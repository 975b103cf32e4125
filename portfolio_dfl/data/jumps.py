"""Detector of one-day moves that look like an unadjusted split or a bad tick.

A move is measured against the ticker's own volatility around it (median absolute log return of 63
neighbours) and, with five tickers or more, against the median move of that day, so that market crashes are
not suspects. Unadjusted splits show as a ratio within ordinary noise of 2:1, 3:1, ... that stays; bad ticks
as a move that the next days take back. On 458 adjusted US funds and stocks, 2011-2024, 69 genuine moves are
larger than 25 %; see the tests for how few of them are suspected.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from portfolio_dfl.data.flags import Flag, Severity

__all__ = ["jump_flags"]

_WINDOW = 63
_RATIOS = (1.5, 2.5, *(float(n) for n in (*range(2, 11), 12, 15, 20, 25, 30, 40, 50, 100, 1000)))
_NAMES = {1.5: "3:2", 2.5: "5:2"}
_MANY = 5
_LARGE = 0.25
_CRASH = 0.04
_BAD_TICK = 0.12
_WARNINGS = ("large_move", "reversed_move")


def jump_flags(prices: pd.DataFrame, confirmed: frozenset[tuple[str, pd.Timestamp]] = frozenset()) -> list[Flag]:
    """Flags ``split_suspect`` and ``bad_tick`` (problems), ``large_move`` and ``reversed_move`` (warnings).

    Parameters
    ----------
    prices
        [T, N], positive or NaN; moves are taken between neighbouring prices of a ticker, gaps skipped.
    confirmed
        Ticker and date of moves known to be genuine: they become notes.
    """
    moves = _log_moves(prices.to_numpy())
    market = _market(moves)
    flags: list[Flag] = []
    for column, ticker in enumerate(prices.columns):
        rows = np.flatnonzero(~np.isnan(moves[:, column]))
        if len(rows) == 0:
            continue
        for row, kind, message in _column_jumps(moves[rows, column], market[rows]):
            date = prices.index[rows[row]]
            known = (str(ticker), date) in confirmed
            severity: Severity = "note" if known else "warning" if kind in _WARNINGS else "problem"
            message += ", confirmed" if known else ""
            flags.append(Flag("confirmed_move" if known else kind, message, severity, ticker=str(ticker), date=date))
    return flags


def _log_moves(values: np.ndarray) -> np.ndarray:
    """Log price ratios to the last price before, [T, N]; NaN where there is no price or none before."""
    logs = np.log(values)
    rows = np.where(np.isnan(logs), 0, np.arange(len(logs))[:, None])
    np.maximum.accumulate(rows, axis=0, out=rows)
    last = np.take_along_axis(logs, rows, axis=0)
    moves = np.full_like(logs, np.nan)
    moves[1:] = logs[1:] - last[:-1]
    return np.asarray(moves)


def _market(moves: np.ndarray) -> np.ndarray:
    """Median move of each day, [T]; 0 where fewer than five tickers moved."""
    enough = (~np.isnan(moves)).sum(axis=1) >= _MANY
    market = np.zeros(len(moves))
    market[enough] = np.nanmedian(moves[enough], axis=1)
    return market


def _column_jumps(moves: np.ndarray, market: np.ndarray) -> list[tuple[int, str, str]]:
    """Position, kind and message of the suspicious moves of one ticker, in order."""
    excess = moves - market
    usual = max(1.4826 * float(np.median(np.abs(moves))), 1e-3)
    found: list[tuple[int, str, str]] = []
    taken_back = -1
    for row in np.flatnonzero(np.abs(moves) > min(max(6 * usual, 0.02), _LARGE)):
        if row <= taken_back:
            continue
        noise = _noise(moves, int(row), usual)
        move = float(moves[row])
        percent = f"{100 * np.expm1(move):+.1f} % in one day"
        back = _reversal(excess, int(row), noise)
        if back is not None:
            taken_back = back
            days = "one day" if back == row + 1 else f"{back - row} days"
            if back == row + 1 and abs(excess[row]) > _BAD_TICK:
                found.append((int(row), "bad_tick", f"{percent}, taken back the next: looks like a bad price"))
            else:
                found.append((int(row), "reversed_move", f"{percent}, taken back within {days}"))
            continue
        if abs(excess[row]) < 6 * noise:
            continue
        ratio = _split_ratio(move, noise, abs(float(market[row])))
        if ratio is not None:
            message = f"{percent}, within noise of {ratio}: looks like an unadjusted split or spin-off"
            found.append((int(row), "split_suspect", message))
        elif abs(move) > _LARGE:
            found.append((int(row), "large_move", f"{percent}, {abs(excess[row]) / noise:.0f}x its usual"))
    return found


def _noise(moves: np.ndarray, row: int, usual: float) -> float:
    """Robust standard deviation of the moves around one, itself left out."""
    low = max(0, min(row - _WINDOW // 2, len(moves) - _WINDOW))
    around = np.delete(moves[low : low + _WINDOW], row - low)
    if len(around) < 5:
        return max(usual, 0.01)
    return max(1.4826 * float(np.median(np.abs(around))), 0.5 * usual, 1e-3)


def _reversal(excess: np.ndarray, row: int, noise: float) -> int | None:
    """Position at which a move of ten times the noise has been taken back by one of its size; else None."""
    size = abs(excess[row])
    if size < max(10 * noise, 0.03):
        return None
    for back in range(row + 1, min(row + 4, len(excess))):
        left = abs(float(excess[row : back + 1].sum()))
        if excess[back] * excess[row] < 0 and abs(excess[back]) > 0.75 * size and left < 0.25 * size:
            return back
    return None


def _split_ratio(move: float, noise: float, market: float) -> str | None:
    """Name of the split ratio that a log move is within ordinary noise of."""
    for ratio in _RATIOS:
        distance = abs(abs(move) - np.log(ratio))
        # 3:2 is where genuine moves are still frequent: closer, downwards, not on a day the market moved.
        near = min(max(noise, 0.01), 0.025) if ratio < 2 else min(max(2 * noise, 0.01), 0.05)
        if distance < near and not (ratio < 2 and (market > _CRASH or move > 0)):
            name = _NAMES.get(ratio, f"{ratio:g}:1")
            return name if move < 0 else f"{':'.join(reversed(name.split(':')))} (reverse)"
    return None
