"""Name a predictor, or bring your own: one signature for all.

A predictor is any ``nn.Module`` made by ``factory(n_assets, lookback, horizon, **options)`` whose
``forward`` maps features [B, lookback, N] (simple daily returns up to and including the decision date,
oldest first) to expected returns [B, H, N] of the H stages after it, a day each
unless ``allocation.stage`` says otherwise. In a configuration that is
``forecasting.predictor: package.module:Class``, found on Python's path or in the working directory.

A predictor that sees features too says so: its class (or factory) has the attribute ``takes_inputs = True``, is made
by ``factory(n_assets, lookback, horizon, n_dated=F, n_by_asset=G, **options)``, and its ``forward`` takes
:class:`~portfolio_dfl.forecasting.inputs.Inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from portfolio_dfl.errors import TrainingError
from portfolio_dfl.execution.parts import find_part
from portfolio_dfl.forecasting import linear, networks, pooled
from portfolio_dfl.forecasting.inputs import Inputs, InputsPredictor, takes_inputs
from portfolio_dfl.forecasting.known import KnownReturn
from portfolio_dfl.forecasting.priors import PriorSpec
from portfolio_dfl.forecasting.scaling import ScaledPredictor
from portfolio_dfl.scalars import require_whole

__all__ = ["PREDICTORS", "PredictorImportError", "PredictorSpec", "build_predictor", "import_folder"]

PredictorFactory = Callable[..., nn.Module]

#: Predictors by name, those of each kind as its module lists them.
PREDICTORS: Mapping[str, PredictorFactory] = MappingProxyType(
    {
        **linear.PREDICTORS,
        **networks.PREDICTORS,
        **pooled.PREDICTORS,
    }
)

# What names stand for in a study with features, where that is something else.
_WITH_FEATURES: Mapping[str, PredictorFactory] = {**pooled.FEATURE_PREDICTORS, **networks.FEATURE_PREDICTORS}


class PredictorImportError(TrainingError):
    """A predictor of the user's own is not where Python looks for modules."""


@dataclass(frozen=True)
class PredictorSpec:
    """What is needed to make a fresh predictor anywhere, in another process too.

    Attributes
    ----------
    factory : str or callable
        A name in `PREDICTORS`, an import path ``"package.module:Class"``, or the factory itself.
    options : mapping
        Keyword arguments of the factory.
    scaled : bool
        Put the predictor between scales fitted on the training window (`ScaledPredictor`).
    prior : PriorSpec
        What the predictor's forecasts are added to; nothing by default.
    ensemble : int
        Predictors that are trained apart, from different seeds; the forecast is their mean.
    known : KnownReturn, optional
        An asset that the predictor leaves out, for its return is known.
    """

    factory: str | PredictorFactory = "linear"
    options: Mapping[str, Any] = field(default_factory=dict)
    scaled: bool = True
    prior: PriorSpec = field(default_factory=PriorSpec)
    ensemble: int = 1
    known: KnownReturn | None = None

    def __post_init__(self) -> None:
        require_whole(TrainingError, "ensemble", self.ensemble, 1)

    def member(self) -> PredictorSpec:
        """One predictor of the ensemble."""
        return replace(self, ensemble=1)

    def build(
        self,
        n_assets: int,
        lookback: int,
        horizon: int,
        stage: int = 1,
        *,
        n_dated: int = 0,
        n_by_asset: int = 0,
    ) -> nn.Module:
        """Make a fresh predictor of stages of so many days, one of an ensemble.

        Random initial values come from torch's global generator.
        """
        return build_predictor(
            self.factory,
            n_assets=n_assets,
            lookback=lookback,
            horizon=horizon,
            scaled=self.scaled,
            stage=stage,
            n_dated=n_dated,
            n_by_asset=n_by_asset,
            **self.options,
        )

    def describe(self) -> str:
        """One line that identifies the predictor, the same in every process."""
        name = self.factory if isinstance(self.factory, str) else _qualified_name(self.factory)
        options = ", ".join(f"{key}={value!r}" for key, value in sorted(self.options.items()))
        several = f" of {self.ensemble}" if self.ensemble > 1 else ""
        beside = "" if self.known is None else f" beside {self.known!r}"
        return f"{name}({options}){' scaled' if self.scaled else ''}{self.prior.describe()}{several}{beside}"


def build_predictor(
    factory: str | PredictorFactory,
    *,
    n_assets: int,
    lookback: int,
    horizon: int,
    scaled: bool = True,
    stage: int = 1,
    n_dated: int = 0,
    n_by_asset: int = 0,
    **options: Any,
) -> nn.Module:
    """Make a float64 predictor of `horizon` stages, `stage` days each, for `n_assets` assets from `lookback` days.

    With features, `n_dated` by date and `n_by_asset` by date and asset, ``linear``, ``gru`` and ``tcn`` are those that
    take them.

    Raises
    ------
    TrainingError
        If the name is unknown, the options do not fit, or the forecasts have the wrong shape.

    Examples
    --------
    >>> import torch
    >>> from portfolio_dfl import build_predictor
    >>> predictor = build_predictor("momentum", n_assets=3, lookback=20, horizon=2)
    >>> tuple(predictor(torch.zeros(5, 20, 3, dtype=torch.float64)).shape)
    (5, 2, 3)
    """
    featured = n_dated + n_by_asset > 0
    make = _resolve(factory, featured) if isinstance(factory, str) else factory
    sees = {"n_dated": n_dated, "n_by_asset": n_by_asset} if takes_inputs(make) else {}
    if featured and not sees:
        raise TrainingError(
            f"predictor {factory!r} sees returns alone, and the study has features; use {', '.join(_featured())}, a "
            "class of your own with takes_inputs = True, or no features"
        )
    try:
        core = make(n_assets, lookback, horizon, **sees, **options)
    except TypeError as error:
        raise TrainingError(f"predictor {factory!r} does not take options {options}: {error}") from error
    if not isinstance(core, nn.Module):
        raise TrainingError(f"predictor {factory!r} made a {type(core).__name__}, not a torch.nn.Module")
    predictor = core.double()
    zeros = torch.zeros(2, lookback, n_assets, dtype=torch.float64)
    if not sees:
        _require_shape(predictor, factory, zeros, horizon)
        return ScaledPredictor(predictor, n_assets, stage) if scaled else predictor
    dated, by_asset = zeros.new_zeros(2, lookback, n_dated), zeros.new_zeros(2, lookback, n_assets, n_by_asset)
    _require_shape(predictor, factory, Inputs(zeros, dated, by_asset), horizon)
    return InputsPredictor(predictor, n_assets, n_dated, n_by_asset, stage, scaled=scaled)


def _featured() -> list[str]:
    """Names of predictors that take features."""
    return [*_WITH_FEATURES, *(name for name, made in PREDICTORS.items() if takes_inputs(made))]


def _resolve(name: str, featured: bool = False) -> PredictorFactory:
    if featured and name in _WITH_FEATURES:
        return _WITH_FEATURES[name]
    found: PredictorFactory = find_part("predictor", name, PREDICTORS, TrainingError, missing=PredictorImportError)
    return found


def import_folder(name: str) -> Path | None:
    """Folder on Python's path that a predictor ``"package.module:Class"`` is imported from; None for one of ours."""
    if name in PREDICTORS:
        return None
    module = name.partition(":")[0]
    file = getattr(import_module(module), "__file__", None)
    if file is None:
        return None
    place = Path(file).resolve()
    return place.parents[module.count(".") + (place.stem == "__init__")]


def _require_shape(predictor: nn.Module, factory: str | PredictorFactory, zeros: Tensor | Inputs, horizon: int) -> None:
    lookback, n_assets = Inputs.of(zeros).returns.shape[1:]
    was_training = predictor.training
    predictor.eval()  # dropout would draw random numbers for a question of shapes
    with torch.no_grad():
        try:
            shape = tuple(predictor(zeros).shape)
        except (RuntimeError, TypeError) as error:
            raise TrainingError(
                f"predictor {factory!r} does not take features of shape [B, {lookback}, {n_assets}]: {error}"
            ) from error
    predictor.train(was_training)
    if shape != (2, horizon, n_assets):
        raise TrainingError(
            f"predictor {factory!r} gave forecasts of shape {shape} for two samples; "
            f"(2, {horizon}, {n_assets}) is needed"
        )


def _qualified_name(factory: PredictorFactory) -> str:
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    return f"{factory.__module__}:{name}"
