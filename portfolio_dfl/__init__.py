"""Decision-focused portfolio studies: configure, run, compare and use them; and the parts they are made of.

What is named here is public, and is imported when it is asked for. Everything else is internal.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from portfolio_dfl.strategies.table import TABLE as STRATEGIES  # which announces their names to configurations

if TYPE_CHECKING:
    from portfolio_dfl.allocation import (
        ActiveShare,
        AllocationSolution,
        BenchmarkBand,
        BoxLimits,
        CashAsset,
        Costs,
        ExposureLimits,
        GrossLeverage,
        GroupLimits,
        Limit,
        MultiPeriodMeanVariance,
        NetExposure,
        NoTrade,
        Smoothing,
        TrackingCost,
        TrackingErrorLimit,
        TradeLimits,
        append_cash,
        drift_weights,
    )
    from portfolio_dfl.backtest import Decision, Ledger, Policy, Rebalancing, roll, run_ledger
    from portfolio_dfl.backtest.baselines import (
        BuyAndHold,
        EqualWeight,
        HistoricalMeanVariance,
        MinimumVariance,
        PerfectForesight,
        RiskParity,
    )
    from portfolio_dfl.backtest.contribution import contributions
    from portfolio_dfl.backtest.evaluation import performance, performance_table
    from portfolio_dfl.backtest.tearsheet import drawdown_episodes, tear_sheet
    from portfolio_dfl.config.study import StudyConfig, load_config
    from portfolio_dfl.data.features import (
        BuiltinFeature,
        FeatureSet,
        FeatureTable,
        check_features,
        feature_table,
        read_feature_file,
    )
    from portfolio_dfl.data.inspection import CheckReport, check_file, check_prices
    from portfolio_dfl.data.panel import PricePanel, build_panel
    from portfolio_dfl.data.sources import PriceSource, open_source
    from portfolio_dfl.data.store import fetch_snapshot, list_snapshots, show_snapshot
    from portfolio_dfl.errors import (
        AllocationError,
        BacktestError,
        ConfigError,
        DataError,
        PortfolioError,
        TrackingError,
        TrainingError,
    )
    from portfolio_dfl.forecasting import (
        PREDICTORS,
        EWMAPredictor,
        GRUPredictor,
        Inputs,
        LinearPredictor,
        MLPPredictor,
        MomentumPredictor,
        PooledPredictor,
        PredictorSpec,
        PriorSpec,
        TemporalConvolutionPredictor,
        build_predictor,
    )
    from portfolio_dfl.risk import (
        OAS,
        CovarianceEstimator,
        EWMACovariance,
        FactorCovariance,
        GivenFactors,
        LedoitWolf,
        RollingCovariance,
        StatisticalFactors,
    )
    from portfolio_dfl.study.check import StudyCheck, check_study
    from portfolio_dfl.study.live import Advice
    from portfolio_dfl.study.live import advise as predict
    from portfolio_dfl.study.result import StudyResult, load_result
    from portfolio_dfl.study.run import Progress, TrainedStudy, compare_study, resume_study, run_study, train_study
    from portfolio_dfl.study.sweep import SweepResult
    from portfolio_dfl.study.sweep import run_sweep as sweep
    from portfolio_dfl.training.estimator import DecisionFocusedPortfolio
    from portfolio_dfl.training.losses import (
        LOSSES,
        CVaRLoss,
        DecisionLoss,
        DrawdownLoss,
        ExecutedUtilityLoss,
        FenchelYoungLoss,
        InformationRatioLoss,
        LogWealthLoss,
        Loss,
        MeanSquaredError,
        Mixture,
        NetUtilityLoss,
        RegretLoss,
        SharpeLoss,
        SortinoLoss,
        SPOPlusLoss,
        TrackingErrorLoss,
        build_loss,
    )
    from portfolio_dfl.training.policies import DecisionFocusedPolicy, PredictOptimisePolicy, TwoStagePolicy
    from portfolio_dfl.training.settings import TrainingSettings

    #: Of both packages, which are released as one.
    __version__: str

__all__ = [
    "LOSSES",
    "OAS",
    "PREDICTORS",
    "STRATEGIES",
    "ActiveShare",
    "Advice",
    "AllocationError",
    "AllocationSolution",
    "BacktestError",
    "BenchmarkBand",
    "BoxLimits",
    "BuiltinFeature",
    "BuyAndHold",
    "CVaRLoss",
    "CashAsset",
    "CheckReport",
    "ConfigError",
    "Costs",
    "CovarianceEstimator",
    "DataError",
    "Decision",
    "DecisionFocusedPolicy",
    "DecisionFocusedPortfolio",
    "DecisionLoss",
    "DrawdownLoss",
    "EWMACovariance",
    "EWMAPredictor",
    "EqualWeight",
    "ExecutedUtilityLoss",
    "ExposureLimits",
    "FactorCovariance",
    "FeatureSet",
    "FeatureTable",
    "FenchelYoungLoss",
    "GRUPredictor",
    "GivenFactors",
    "GrossLeverage",
    "GroupLimits",
    "HistoricalMeanVariance",
    "InformationRatioLoss",
    "Inputs",
    "Ledger",
    "LedoitWolf",
    "Limit",
    "LinearPredictor",
    "LogWealthLoss",
    "Loss",
    "MLPPredictor",
    "MeanSquaredError",
    "MinimumVariance",
    "Mixture",
    "MomentumPredictor",
    "MultiPeriodMeanVariance",
    "NetExposure",
    "NetUtilityLoss",
    "NoTrade",
    "PerfectForesight",
    "Policy",
    "PooledPredictor",
    "PortfolioError",
    "PredictOptimisePolicy",
    "PredictorSpec",
    "PricePanel",
    "PriceSource",
    "PriorSpec",
    "Progress",
    "Rebalancing",
    "RegretLoss",
    "RiskParity",
    "RollingCovariance",
    "SPOPlusLoss",
    "SharpeLoss",
    "Smoothing",
    "SortinoLoss",
    "StatisticalFactors",
    "StudyCheck",
    "StudyConfig",
    "StudyResult",
    "SweepResult",
    "TemporalConvolutionPredictor",
    "TrackingCost",
    "TrackingError",
    "TrackingErrorLimit",
    "TrackingErrorLoss",
    "TradeLimits",
    "TrainedStudy",
    "TrainingError",
    "TrainingSettings",
    "TwoStagePolicy",
    "__version__",
    "append_cash",
    "build_loss",
    "build_panel",
    "build_predictor",
    "check_features",
    "check_file",
    "check_prices",
    "check_study",
    "compare_study",
    "contributions",
    "drawdown_episodes",
    "drift_weights",
    "feature_table",
    "fetch_snapshot",
    "list_snapshots",
    "load_config",
    "load_result",
    "open_source",
    "performance",
    "performance_table",
    "predict",
    "read_feature_file",
    "resume_study",
    "roll",
    "run_ledger",
    "run_study",
    "show_snapshot",
    "sweep",
    "tear_sheet",
    "train_study",
]

# Modules with what they hold under the name it has here.
_ROOMS = {
    "allocation": (
        "ActiveShare AllocationSolution BenchmarkBand BoxLimits CashAsset Costs ExposureLimits GrossLeverage "
        "GroupLimits Limit MultiPeriodMeanVariance NetExposure NoTrade Smoothing TrackingCost "
        "TrackingErrorLimit TradeLimits append_cash drift_weights"
    ),
    "backtest": "Decision Ledger Policy Rebalancing roll run_ledger",
    "backtest.baselines": "BuyAndHold EqualWeight HistoricalMeanVariance MinimumVariance PerfectForesight RiskParity",
    "backtest.contribution": "contributions",
    "backtest.evaluation": "performance performance_table",
    "backtest.tearsheet": "drawdown_episodes tear_sheet",
    "config.study": "StudyConfig load_config",
    "data.features": "BuiltinFeature FeatureSet FeatureTable check_features feature_table read_feature_file",
    "data.inspection": "CheckReport check_file check_prices",
    "data.panel": "PricePanel build_panel",
    "data.sources": "PriceSource open_source",
    "data.store": "fetch_snapshot list_snapshots show_snapshot",
    "errors": "AllocationError BacktestError ConfigError DataError PortfolioError TrackingError TrainingError",
    "forecasting": (
        "PREDICTORS EWMAPredictor GRUPredictor Inputs LinearPredictor MLPPredictor MomentumPredictor PooledPredictor "
        "PredictorSpec PriorSpec TemporalConvolutionPredictor build_predictor"
    ),
    "risk": (
        "OAS CovarianceEstimator EWMACovariance FactorCovariance GivenFactors LedoitWolf RollingCovariance "
        "StatisticalFactors"
    ),
    "study.check": "StudyCheck check_study",
    "study.live": "Advice",
    "study.result": "StudyResult load_result",
    "study.run": "Progress TrainedStudy compare_study resume_study run_study train_study",
    "study.sweep": "SweepResult",
    "training.estimator": "DecisionFocusedPortfolio",
    "training.losses": (
        "LOSSES CVaRLoss DecisionLoss DrawdownLoss ExecutedUtilityLoss FenchelYoungLoss InformationRatioLoss "
        "LogWealthLoss Loss MeanSquaredError Mixture NetUtilityLoss RegretLoss SPOPlusLoss SharpeLoss SortinoLoss "
        "TrackingErrorLoss build_loss"
    ),
    "training.policies": "DecisionFocusedPolicy PredictOptimisePolicy TwoStagePolicy",
    "training.settings": "TrainingSettings",
}
# Verbs of the command line, whose functions say more in the rooms where they live.
_PLACES = {name: (room, name) for room, names in _ROOMS.items() for name in names.split()} | {
    "predict": ("study.live", "advise"),
    "sweep": ("study.sweep", "run_sweep"),
}


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        value = import_module("dxpp_core").__version__  # both packages are released as one
    elif name in _PLACES:
        room, own_name = _PLACES[name]
        value = getattr(import_module(f"{__name__}.{room}"), own_name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
