"""The paper's own figures (Linghu, Liu and Deng 2026, Tables 1 to 6), to stand beside ours.

Their machine: Intel Core Ultra 9 285H, PyTorch 2.2, Gurobi forward.  Times are milliseconds; NaN where a method did not
finish.
"""

from __future__ import annotations

import pandas as pd

__all__ = ["MACHINE", "accuracy", "portfolio_times", "projection_times", "smoothing_accuracy", "sudoku_times"]

MACHINE = "paper: Intel Core Ultra 9 285H, PyTorch 2.2, Gurobi forward"

_NONE = float("nan")

_SIMPLEX_SIZES = (20, 100, 450, 1_000, 4_600, 10_000, 100_000, 1_000_000)
_SIMPLEX = {
    ("dXPP", "backward"): (0.72, 0.82, 0.91, 0.92, 1.09, 1.51, 8.35, 226.21),
    ("dXPP", "total"): (5.01, 5.13, 6.27, 7.73, 22.48, 46.09, 494.02, 5212.38),
    ("dQP", "backward"): (0.82, 0.89, 0.99, 1.51, 4.63, 10.01, 83.79, 950.64),
    ("dQP", "total"): (5.55, 5.95, 7.11, 9.22, 26.55, 56.50, 572.64, 6103.44),
    ("OptNet", "backward"): (0.54, 0.74, 2.84, 18.41, 372.73, 2647.40, _NONE, _NONE),
    ("OptNet", "total"): (5.47, 8.21, 46.48, 286.28, 4716.01, 34121.95, _NONE, _NONE),
    ("SCQPTH", "backward"): (0.87, 2.62, *6 * (_NONE,)),
    ("SCQPTH", "total"): (53.40, 481.95, *6 * (_NONE,)),
    ("CVXPYLayers", "backward"): (1.23, 1.72, *6 * (_NONE,)),
    ("CVXPYLayers", "total"): (3.15, 7.37, *6 * (_NONE,)),
}
_CHAIN_SIZES = (200, 500, 1_000, 2_000, 4_000, 10_000, 100_000, 1_000_000)
_CHAIN = {
    ("dXPP", "backward"): (1.06, 1.74, 2.59, 3.05, 4.08, 7.01, 25.09, 333.42),
    ("dXPP", "total"): (13.24, 15.61, 27.82, 45.56, 81.93, 214.52, 2495.59, 29306.28),
    ("dQP", "backward"): (1.49, 2.17, 3.72, 3.76, 7.90, 17.07, 195.27, 3071.18),
    ("dQP", "total"): (14.14, 16.97, 29.30, 47.08, 85.00, 225.94, 2695.72, 32201.43),
    ("OptNet", "backward"): (7.25, 14.00, 43.75, 202.62, 1190.40, 12873.17, _NONE, _NONE),
    ("OptNet", "total"): (46.76, 225.79, 759.01, 3210.28, 19107.02, 235462.01, _NONE, _NONE),
    ("SCQPTH", "backward"): (18.93, 35.43, 162.59, 842.21, 5002.86, 68260.63, _NONE, _NONE),
    ("SCQPTH", "total"): (47.68, 87.53, 897.21, 3512.24, 14956.00, 110042.63, _NONE, _NONE),
    ("CVXPYLayers", "backward"): (41.01, *7 * (_NONE,)),
    ("CVXPYLayers", "total"): (105.88, *7 * (_NONE,)),
}
_HORIZONS = (10, 20, 50, 100, 150, 200)
_PORTFOLIO = {
    ("dXPP", "backward"): (1.71, 2.91, 10.29, 36.66, 68.72, 113.97),
    ("dXPP", "total"): (11.91, 18.07, 60.58, 210.41, 496.52, 977.98),
    ("dQP", "backward"): (17.68, 68.00, 694.68, 3830.83, 16583.49, 39105.75),
    ("dQP", "total"): (27.50, 85.57, 763.92, 4049.86, 17122.70, 40066.11),
    ("OptNet", "backward"): (3.24, 8.51, 34.82, 117.34, 293.70, 605.89),
    ("OptNet", "total"): (35.32, 98.33, 538.97, 1911.39, 4698.60, 10978.19),
    ("SCQPTH", "backward"): (6.55, 13.80, 96.02, 429.49, 1777.38, 3368.87),
    ("SCQPTH", "total"): (1074.22, 1641.08, 8121.46, 41659.76, 114059.42, 194166.95),
    ("CVXPYLayers", "backward"): (7.76, *5 * (_NONE,)),
    ("CVXPYLayers", "total"): (25.52, *5 * (_NONE,)),
}
_SUDOKU = {"dXPP": (12.15, 196.21, 2591.54), "dQP": (12.81, 261.86, 3109.08), "OptNet": (12.16, 217.04, 7877.82)}
_ACCURACY = {
    (10, 5): (1.91e-7, 1.40e-7),
    (50, 10): (8.55e-8, 3.57e-8),
    (100, 20): (2.64e-7, 9.50e-8),
    (500, 100): (5.21e-6, 6.50e-7),
    (1000, 200): (1.74e-5, 2.25e-6),
    (1500, 500): (5.36e-5, 3.51e-6),
    (3000, 1000): (1.91e-4, 1.23e-5),
    (5000, 2000): (5.14e-4, 2.39e-5),
}
_SCALES = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
_SMOOTHING = {
    (10, 5): (3.67e-5, 1.48e-6, 1.91e-7, 9.07e-7, 1.11e-5),
    (100, 20): (1.07e-6, 2.03e-7, 1.03e-7, 2.61e-7, 3.02e-6),
    (1000, 200): (8.83e-7, 2.78e-7, 1.83e-7, 1.58e-6, 1.12e-5),
    (5000, 2000): (3.18e-6, 7.25e-7, 2.62e-7, 2.11e-6, 1.63e-5),
}


def projection_times(kind: str) -> pd.DataFrame:
    """Tables 3 ("simplex") and 4 ("chain"): columns solver, metric, n, ms."""
    sizes, figures = (_SIMPLEX_SIZES, _SIMPLEX) if kind == "simplex" else (_CHAIN_SIZES, _CHAIN)
    return pd.DataFrame(
        [
            (f"{solver} (paper)", metric, n, ms)
            for (solver, metric), times in figures.items()
            for n, ms in zip(sizes, times, strict=True)
        ],
        columns=["solver", "metric", "n", "ms"],
    )


def portfolio_times() -> pd.DataFrame:
    """Table 5, the multi-period portfolio of seven funds: columns layer, metric, horizon, ms."""
    return pd.DataFrame(
        [
            (f"{layer} (paper)", metric, horizon, ms)
            for (layer, metric), times in _PORTFOLIO.items()
            for horizon, ms in zip(_HORIZONS, times, strict=True)
        ],
        columns=["layer", "metric", "horizon", "ms"],
    )


def sudoku_times() -> pd.DataFrame:
    """Table 6: milliseconds an epoch by board size; columns method, n, ms_per_epoch."""
    return pd.DataFrame(
        [
            (f"{method} (paper)", n, ms)
            for method, times in _SUDOKU.items()
            for n, ms in zip((2, 3, 4), times, strict=True)
        ],
        columns=["method", "n", "ms_per_epoch"],
    )


def accuracy() -> pd.DataFrame:
    """Table 1: difference of dXPP's gradient from dQP's; columns layer, size, mean, std."""
    return pd.DataFrame(
        [("dXPP against dQP (paper)", f"{n}×{m}", mean, std) for (n, m), (mean, std) in _ACCURACY.items()],
        columns=["layer", "size", "mean", "std"],
    )


def smoothing_accuracy() -> pd.DataFrame:
    """Table 2: the same over the smoothing scale δ/‖KKT‖; columns layer, size, scale, mean."""
    return pd.DataFrame(
        [
            ("dXPP against dQP (paper)", f"{n}×{m}", scale, mean)
            for (n, m), means in _SMOOTHING.items()
            for scale, mean in zip(_SCALES, means, strict=True)
        ],
        columns=["layer", "size", "scale", "mean"],
    )
