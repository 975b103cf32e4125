"""Name a covariance estimator, or bring your own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from portfolio_dfl.errors import DataError
from portfolio_dfl.execution.parts import asking, build_part, find_part, takes_option
from portfolio_dfl.risk.covariance import (
    CovarianceEstimate,
    CovarianceEstimator,
    EWMACovariance,
    FloatArray,
    RollingCovariance,
    WindowEstimator,
)
from portfolio_dfl.risk.factor_models import StatisticalFactors
from portfolio_dfl.risk.given_factors import GivenFactors
from portfolio_dfl.risk.riskless import BesideRiskless
from portfolio_dfl.risk.shrinkage import OAS, LedoitWolf

__all__ = ["COVARIANCES", "OwnCovariance", "build_covariance", "try_covariance"]

#: Estimators by name; each is made from a window and what else it has of ``ridge`` and ``halflife``.
COVARIANCES: Mapping[str, Callable[..., CovarianceEstimator]] = MappingProxyType(
    {
        "rolling": RollingCovariance,
        "ewma": EWMACovariance,
        "ledoit_wolf": LedoitWolf,
        "oas": OAS,
        "factor": StatisticalFactors,
    }
)

# How far from symmetric a matrix may be, relative to its largest entry.
_SYMMETRY = 1e-8


def build_covariance(
    name: str, *, window: int, ridge: float = 1e-3, halflife: float = 20.0, options: Mapping[str, Any] | None = None
) -> CovarianceEstimator:
    """Make an estimator from its name, one of :data:`COVARIANCES` or ``package.module:Name``.

    Parameters
    ----------
    name : str
    window : int
        Number of returns that an estimate uses.
    ridge : float
        Share of the average variance added to each variance; of ours that have one.
    halflife : float
        Number of returns; of ``ewma``.
    options : mapping, optional
        Arguments of an own one, beside its window; of ``factor`` those of
        :class:`~portfolio_dfl.risk.StatisticalFactors`, or with ``exposures`` [N, K] those of
        :class:`~portfolio_dfl.risk.GivenFactors`.

    Raises
    ------
    DataError
        If the name is unknown, or options or signature do not fit.
    """
    if name in COVARIANCES:
        make, given = COVARIANCES[name], dict(options or {})
        if name == "factor" and "exposures" in given:
            make = GivenFactors
        known = {"window": window, "ridge": ridge, "halflife": halflife}
        own = [key for key in inspect.signature(make).parameters if key not in known]
        foreign = [key for key in given if key not in own]
        if foreign:
            takes = f"the options {', '.join(own)}" if own else "no options"
            raise DataError(f"covariance {name!r} takes {takes}, not {', '.join(foreign)}")
        return make(**given, **{key: value for key, value in known.items() if takes_option(make, key)})
    return OwnCovariance(name, window, options or {})


def try_covariance(estimator: CovarianceEstimator, n_assets: int) -> None:
    """Ask an own estimator once, for made-up returns of so many assets; ours are known.

    Raises
    ------
    DataError
        If it fails, or its answer is no covariance of them.
    """
    if isinstance(estimator, BesideRiskless):
        try_covariance(estimator.estimator, n_assets - 1)
    elif isinstance(estimator, OwnCovariance):
        estimator(0.01 * np.random.default_rng(0).standard_normal((estimator.window, n_assets)))


@dataclass(frozen=True)
class OwnCovariance(WindowEstimator):
    """An estimator ``package.module:Name``, whose every answer is looked at.

    A class is made with the options, and with ``window`` if it has such an argument; called with a window of
    returns [W, N] it gives a covariance [N, N]. A function of such a window does the same. ``estimate_many`` is
    optional: without it windows are given one by one. It is pickled by its name.

    Parameters
    ----------
    name : str
    window : int
        Number of returns W.
    options : mapping

    Raises
    ------
    DataError
        If it cannot be imported, or the options or the signature do not fit, or it looks at another number of returns.
    """

    name: str
    window: int
    options: Mapping[str, Any] = field(default_factory=dict)
    estimator: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = find_part("covariance", self.name, COVARIANCES, DataError)
        options = dict(self.options)
        if takes_option(found, "window"):
            options.setdefault("window", self.window)
        made = build_part("covariance", self.name, found, options, DataError, takes=["returns_window"])
        own = getattr(made, "window", self.window)
        if own != self.window:
            raise DataError(
                f"covariance {self.name!r} looks at {own} returns and is given {self.window}: set covariance.window "
                f"to {own}"
            )
        object.__setattr__(self, "estimator", made)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.window, dict(self.options))

    def estimate_many(self, windows: FloatArray) -> CovarianceEstimate:
        """Covariances of many windows [T, W, N] at once, with the shrinkage used where the estimator tells."""
        many = getattr(self.estimator, "estimate_many", None)
        zeros = np.zeros(len(windows))
        if many is None:
            answers = [self._checked(self._asked(self.estimator, window), window.shape[1:]) for window in windows]
            return CovarianceEstimate(np.stack(answers), zeros, zeros)
        answer = self._asked(many, windows)
        if not isinstance(answer, CovarianceEstimate):
            answer = CovarianceEstimate(answer, zeros, zeros)
        shape = (len(windows), *windows.shape[2:])
        return answer._replace(covariance=self._checked(answer.covariance, shape))

    def _asked(self, function: Callable[[FloatArray], Any], values: FloatArray) -> Any:
        with asking("covariance", self.name, DataError, f" for returns of shape {values.shape}"):
            return function(values.copy())

    def _checked(self, answer: Any, shape: tuple[int, ...]) -> FloatArray:
        n_assets = shape[-1]
        needed = (*shape[:-1], n_assets, n_assets)
        try:
            covariance: FloatArray = np.array(answer, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"covariance {self.name!r} gave no numbers: {error}") from error
        if covariance.shape != needed:
            raise DataError(f"covariance {self.name!r} gave an array of shape {covariance.shape}; {needed} is needed")
        if not np.isfinite(covariance).all():
            raise DataError(f"covariance {self.name!r} gave numbers that are not finite")
        transposed = covariance.swapaxes(-1, -2)
        if np.abs(covariance - transposed).max() > _SYMMETRY * np.abs(covariance).max():
            raise DataError(f"covariance {self.name!r} gave a matrix that is not symmetric")
        symmetric: FloatArray = 0.5 * (covariance + transposed)
        return symmetric
