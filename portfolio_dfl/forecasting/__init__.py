"""Return predictors: modules that map a window of past returns to expected returns over the horizon."""

from __future__ import annotations

from portfolio_dfl.forecasting.build import PREDICTORS, PredictorSpec, build_predictor
from portfolio_dfl.forecasting.closed_form import fit_least_squares
from portfolio_dfl.forecasting.ensemble import EnsemblePredictor
from portfolio_dfl.forecasting.inputs import Inputs, InputsPredictor, takes_inputs
from portfolio_dfl.forecasting.known import KnownReturn
from portfolio_dfl.forecasting.linear import EWMAPredictor, LinearPredictor, MomentumPredictor
from portfolio_dfl.forecasting.networks import (
    FeatureGRUPredictor,
    FeatureTemporalConvolutionPredictor,
    GRUPredictor,
    MLPPredictor,
    TemporalConvolutionPredictor,
)
from portfolio_dfl.forecasting.pooled import FeatureLinearPredictor, PooledPredictor
from portfolio_dfl.forecasting.priors import EquilibriumPrior, HistoricalMeanPrior, JamesSteinPrior, Prior, PriorSpec
from portfolio_dfl.forecasting.scaling import ScaledPredictor

__all__ = [
    "PREDICTORS",
    "EWMAPredictor",
    "EnsemblePredictor",
    "EquilibriumPrior",
    "FeatureGRUPredictor",
    "FeatureLinearPredictor",
    "FeatureTemporalConvolutionPredictor",
    "GRUPredictor",
    "HistoricalMeanPrior",
    "Inputs",
    "InputsPredictor",
    "JamesSteinPrior",
    "KnownReturn",
    "LinearPredictor",
    "MLPPredictor",
    "MomentumPredictor",
    "PooledPredictor",
    "PredictorSpec",
    "Prior",
    "PriorSpec",
    "ScaledPredictor",
    "TemporalConvolutionPredictor",
    "build_predictor",
    "fit_least_squares",
    "takes_inputs",
]
