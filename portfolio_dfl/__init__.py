"""Decision-focused learning for portfolios: from prices to a report, trained through the optimiser."""
