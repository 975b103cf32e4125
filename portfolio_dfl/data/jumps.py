"""Detector of moves that look like an unadjusted split, a change of unit or bad prices.

A move is measured against the ticker's own volatility around it (median absolute log return of 63
neighbours) and, with five tickers or more, against the median move of that day, so that market crashes are
not suspects. Unadjusted splits show as a ratio within ordinary noise of 2:1, 3:1, ... that stays; bad ticks
as a move that the days after take back; changes of unit, as from pounds to pence, by their size alone, whether
they are ever taken back or not and however many tickers change at once. On 458 adjusted US funds and stocks,
2011-2024, 69 genuine moves are larger than 25 % and none is larger than a factor of 2.2; see the tests for how
few of them are suspected.
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
# Log moves that are bad prices: taken back within two days, within a year, and whatever follows. Genuine ones
# that were taken back reach 0.37 (within three days), others 0.77.
_TWO_DAYS, _A_YEAR, _ANY = 0.25, float(np.log(1.5)), float(np.log(3.0))
# A median move beyond it is no market but a vendor that changed the unit of most tickers.
_MARKET = 0.5
_UNITS = (10.0, 100.0, 1000.0)
_YEAR = 252
_WARNINGS = ("large_move", "reversed_move")


def jump_flags(prices: pd.DataFrame, confirmed: frozenset[tuple[str, pd.Timestamp]] = frozenset()) -> list[Flag]:
    """Problems ``split_suspect``, ``bad_tick``, ``unit_change``; warnings ``large_move``, ``reversed_move``.

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
    """Median move of each day, [T]; 0 where fewer than five tickers moved, or further than a market does."""
    enough = (~np.isnan(moves)).sum(axis=1) >= _MANY
    market = np.zeros(len(moves))
    market[enough] = np.nanmedian(moves[enough], axis=1)
    return np.where(np.abs(market) > _MARKET, 0.0, market)


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
        percent = f"{100 * np.expm1(move):+,.1f} % in one day"
        back = _reversal(excess, int(row), noise)
        if back is not None:
            taken_back = back
            days = "one day" if back == row + 1 else f"{back - row} days"
            if abs(excess[row]) > (_BAD_TICK, _TWO_DAYS, _A_YEAR)[back - row - 1]:
                when, what = ("the next", "a bad price") if back == row + 1 else (f"within {days}", "bad prices")
                found.append((int(row), "bad_tick", f"{percent}, taken back {when}: looks like {what}"))
            else:
                found.append((int(row), "reversed_move", f"{percent}, taken back within {days}"))
            continue
        # Where prices jump to and fro all the time, jumps are what is usual: the largest are judged by size alone.
        if abs(excess[row]) < 6 * noise and abs(move) < _ANY:
            continue
        ratio = _split_ratio(move, noise, abs(float(market[row])))
        later = _later_reversal(moves, int(row), noise)
        if ratio is not None:
            cause = "a change of unit, or an unadjusted split" if _is_unit(move) else "an unadjusted split or spin-off"
            found.append((int(row), "split_suspect", f"{percent}, within noise of {ratio}: looks like {cause}"))
        elif abs(move) > _ANY:
            cause = "a change of unit" if _is_unit(move) else "a bad price or a change of unit"
            found.append((int(row), "unit_change", f"{percent}, too much for a day: looks like {cause}"))
        elif later is not None:
            message = f"{percent}, taken back after {later - row} days: looks like bad prices"
            found.append((int(row), "bad_tick", message))
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


def _later_reversal(moves: np.ndarray, row: int, noise: float) -> int | None:
    """Position, within a year, of a move that takes a large one back to within noise; else None."""
    if abs(moves[row]) < _A_YEAR:
        return None
    after = moves[row + 1 : row + 1 + _YEAR]
    same = np.flatnonzero(np.abs(after + moves[row]) < max(2 * noise, 0.02))
    return row + 1 + int(same[0]) if len(same) else None


def _is_unit(move: float) -> bool:
    """Whether a log move is a factor of ten, a hundred or a thousand, give or take a bad day of the market."""
    return any(abs(abs(move) - np.log(unit)) < _LARGE for unit in _UNITS)


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
