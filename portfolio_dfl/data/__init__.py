"""Prices: where they come from, what is wrong with them, and the clean panel everything else starts from."""
