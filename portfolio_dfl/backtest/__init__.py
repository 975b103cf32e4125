"""From decisions to books: policies, baselines, the ledger, and what can be said about the result."""

from __future__ import annotations

from portfolio_dfl.backtest.ledger import Ledger, run_ledger
from portfolio_dfl.backtest.policy import Decision, Policy, roll
from portfolio_dfl.backtest.rebalancing import Rebalancing

__all__ = ["Decision", "Ledger", "Policy", "Rebalancing", "roll", "run_ledger"]
