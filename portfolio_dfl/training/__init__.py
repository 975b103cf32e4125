"""Training return predictors on the decision they lead to, walk-forward and without look-ahead."""
