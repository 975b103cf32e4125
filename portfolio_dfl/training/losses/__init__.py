"""What a predictor is trained for: the paper's decision loss, its relatives, and squared error.

A loss is any callable from an `Outcome` to a scalar tensor. Losses ask the outcome for what they need:
squared error never solves a portfolio problem, and terms of a mixture share one solution. Stages s = 1 … H
are the days after the decision; r_s and Σ are realised, r̂_s and Σ̂ are what the layer saw, λ is the
layer's risk aversion.
"""

from portfolio_dfl.training.losses.executed import ExecutedLoss, ExecutedUtilityLoss, LogWealthLoss, charged_by_books
from portfolio_dfl.training.losses.first_stage import CVaRLoss, MeanSquaredError, SharpeLoss
from portfolio_dfl.training.losses.loss import Loss
from portfolio_dfl.training.losses.planned import (
    DecisionLoss,
    NetUtilityLoss,
    RegretLoss,
    decision_loss,
    plan_objective,
)
from portfolio_dfl.training.losses.ratios import (
    DrawdownLoss,
    InformationRatioLoss,
    SortinoLoss,
    TrackingErrorLoss,
)
from portfolio_dfl.training.losses.surrogate import FenchelYoungLoss, SPOPlusLoss
from portfolio_dfl.training.losses.table import LOSSES, Mixture, build_loss

__all__ = [
    "LOSSES",
    "CVaRLoss",
    "DecisionLoss",
    "DrawdownLoss",
    "ExecutedLoss",
    "ExecutedUtilityLoss",
    "FenchelYoungLoss",
    "InformationRatioLoss",
    "LogWealthLoss",
    "Loss",
    "MeanSquaredError",
    "Mixture",
    "NetUtilityLoss",
    "RegretLoss",
    "SPOPlusLoss",
    "SharpeLoss",
    "SortinoLoss",
    "TrackingErrorLoss",
    "build_loss",
    "charged_by_books",
    "decision_loss",
    "plan_objective",
]
