"""What became of an instance that a solver of plans was asked for."""

from __future__ import annotations

__all__ = [
    "BAD_NUMBER",
    "BAD_PARAMETER",
    "CERTIFIED",
    "NOT_CONVERGED",
    "NOT_CONVEX",
    "OUT_OF_RANGE",
    "OUT_OF_REACH",
    "UNCERTIFIED",
]

CERTIFIED, UNCERTIFIED, NOT_CONVERGED, BAD_NUMBER, BAD_PARAMETER, NOT_CONVEX, OUT_OF_REACH = 0, 1, 2, 3, 4, 5, 6
OUT_OF_RANGE = 7
