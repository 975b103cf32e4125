"""Decision-focused portfolio studies."""

from portfolio_dfl.strategies.table import TABLE as STRATEGIES  # which announces their names to configurations

__all__ = ["STRATEGIES"]
