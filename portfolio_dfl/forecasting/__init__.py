"""Return predictors: modules that map a window of past returns to expected returns over the horizon."""

from __future__ import annotations

from portfolio_dfl.forecasting.build import PREDICTORS, PredictorSpec, build_predictor
from portfolio_dfl.forecasting.closed_form import fit_least_squares
from portfolio_dfl.forecasting.linear import EWMAPredictor, LinearPredictor, MomentumPredictor
from portfolio_dfl.forecasting.networks import GRUPredictor, MLPPredictor, TemporalConvolutionPredictor
from portfolio_dfl.forecasting.scaling import ScaledPredictor

__all__ = [
    "PREDICTORS",
    "EWMAPredictor",
    "GRUPredictor",
    "LinearPredictor",
    "MLPPredictor",
    "MomentumPredictor",
    "PredictorSpec",
    "ScaledPredictor",
    "TemporalConvolutionPredictor",
    "build_predictor",
    "fit_least_squares",
]
