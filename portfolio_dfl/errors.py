"""The errors a user of ``portfolio_dfl`` can meet; each message says what is wrong, where, and what to do."""

from __future__ import annotations

__all__ = [
    "AllocationError",
    "BacktestError",
    "ConfigError",
    "DataError",
    "PortfolioError",
    "TrackingError",
    "TrainingError",
]


class PortfolioError(ValueError):
    """Base of every error this package raises on purpose."""


class ConfigError(PortfolioError):
    """A study's configuration cannot be used: unknown key, wrong value, values that contradict each other."""


class DataError(PortfolioError):
    """Prices cannot be used as they are: missing, inconsistent, or not where they were said to be."""


class AllocationError(PortfolioError):
    """A portfolio problem cannot be satisfied or its arguments do not fit together."""


class TrainingError(PortfolioError):
    """A predictor cannot be trained on the samples given."""


class BacktestError(PortfolioError):
    """Weights and returns cannot be brought together in a ledger, or not evaluated."""


class TrackingError(PortfolioError):
    """A run, report or model cannot be written or found."""
