"""Where work runs: over processes or a cluster, and what an interruption does to it."""
