"""Training return predictors on the decision they lead to, walk-forward and without look-ahead.

- `decision`: the decision function and the weights held while it is trained.
- `samples`: what is learned from, with the date on which each label is complete.
- `losses`: what a predictor is trained for.
- `module`, `datamodule`, `fitting`: one fit with Lightning.
- `window`, `walk_forward`: one training window as a pure function of its task, and when there is one.
- `settings`, `window_files`: how a window is trained, and how it is kept.
- `policies`: trained strategies for the backtest and for live use.
- `estimator`: the same as a scikit-learn estimator for skfolio (imports skfolio).
- `health`: whether gradients reach the forecasts and forecasts stay in proportion.
"""

from portfolio_dfl.execution.environment import require_readable_environment

require_readable_environment()  # before Lightning reads it
