"""Samples over time: features up to a date, labels after it, and when each label is known.

A sample dated t holds what was known at the close of t (features, estimated covariance) and what
happened next (returns of the H stages after t, covariance realised over t+1 … t+W). Stage s covers the k days
t+(s−1)k+1 … t+sk, k = 1 where a plan has one stage a day. The label is complete at t+L, L = `label_length` (H, W, k);
a decision at date d may learn from it only if that day is d or earlier.
`Samples.usable_at` asks the recorded dates, not the settings, so that the embargo holds by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from portfolio_dfl.data.features.collection import FeatureRows
from portfolio_dfl.data.returns import compounded, why_not_returns
from portfolio_dfl.errors import DataError
from portfolio_dfl.forecasting import Inputs
from portfolio_dfl.risk.factor import FactorCovariance
from portfolio_dfl.risk.factor_path import realised_factors

__all__ = ["Samples", "build_samples", "label_length", "returns_needed"]


def label_length(horizon: int, realised_window: int, stage: int = 1) -> int:
    """Number of returns after a sample's date that its label needs: L = max(horizon · stage, realised_window)."""
    if horizon < 1:
        raise DataError(f"horizon must be at least 1 stage, got {horizon}")
    if realised_window < 2:
        raise DataError(f"realised_window must be at least 2 returns for a covariance, got {realised_window}")
    if stage < 1:
        raise DataError(f"a stage must be at least 1 return long, got {stage}")
    return max(horizon * stage, realised_window)


def returns_needed(
    samples: int,
    *,
    lookback: int,
    covariance_window: int,
    horizon: int,
    realised_window: int,
    stage: int = 1,
    reach: int = 1,
) -> int:
    """Number of returns by whose end this many samples have their features, covariances and labels.

    `reach` is the number of returns that a feature of one date needs, 1 without features.
    """
    seen = max(lookback + reach - 1, covariance_window)
    return seen - 1 + samples + label_length(horizon, realised_window, stage)


@dataclass(frozen=True)
class Samples:
    """S dated samples over N assets; all tensors are float64 on the CPU.

    Attributes
    ----------
    dates : DatetimeIndex [S]
        Consecutive trading days t.
    features : Tensor [S, lookback, N]
        Simple returns of the `lookback` days up to and including t, oldest first.
    future_returns : Tensor [S, H, N]
        Simple returns of the H stages after t, each compounded over its days; NaN where they are not known yet.
    realised_covariance : Tensor [S, N, N] or FactorCovariance
        Sample covariance (ddof = 1) of the returns of t+1 … t+W, times the days of a stage; NaN where not known yet.
    covariance : Tensor [S, N, N] or FactorCovariance
        Covariance estimated from returns up to and including t, times the days of a stage. In parts both are.
    label_end : DatetimeIndex [S]
        Date of the last return the label uses; NaT where the label is incomplete.
    stage : int
        Days k of one stage of the plan; covariances of k days are k times those of one, as if days did not correlate.
    cost : Tensor [S, N], optional
        Cost of a unit traded that the plan of t counts, known at the close of t; None where it is the same on all
        dates, and the portfolio layer's own.
    dated : Tensor [S, lookback, F] or None
        Features by date, as they were known at the close of each day of the window.
    by_asset : Tensor [S, lookback, N, G] or None
        Features by date and asset, likewise; both are None in a study without features.
    """

    dates: pd.DatetimeIndex
    features: Tensor
    future_returns: Tensor
    realised_covariance: Tensor | FactorCovariance
    covariance: Tensor | FactorCovariance
    label_end: pd.DatetimeIndex
    stage: int = 1
    cost: Tensor | None = None
    dated: Tensor | None = None
    by_asset: Tensor | None = None

    def __len__(self) -> int:
        return len(self.dates)

    @property
    def lookback(self) -> int:
        return int(self.features.shape[1])

    @property
    def horizon(self) -> int:
        return int(self.future_returns.shape[1])

    @property
    def n_assets(self) -> int:
        return int(self.features.shape[2])

    @property
    def inputs(self) -> Tensor | Inputs:
        """What a predictor sees: the returns, or returns and features where there are any."""
        if self.dated is None or self.by_asset is None:
            return self.features
        return Inputs(self.features, self.dated, self.by_asset)

    @property
    def n_dated(self) -> int:
        """F."""
        return 0 if self.dated is None else int(self.dated.shape[2])

    @property
    def n_by_asset(self) -> int:
        """G."""
        return 0 if self.by_asset is None else int(self.by_asset.shape[3])

    def slice(self, start: int, stop: int) -> Samples:
        """Samples at positions start … stop−1 (views, not copies)."""
        part = slice(start, stop)
        return Samples(
            dates=self.dates[part],
            features=self.features[part],
            future_returns=self.future_returns[part],
            realised_covariance=self.realised_covariance[part],
            covariance=self.covariance[part],
            label_end=self.label_end[part],
            stage=self.stage,
            cost=None if self.cost is None else self.cost[part],
            dated=None if self.dated is None else self.dated[part],
            by_asset=None if self.by_asset is None else self.by_asset[part],
        )

    def usable_at(self, date: pd.Timestamp) -> Samples:
        """The samples whose labels are complete at `date`: those a decision at that close may learn from."""
        # Label ends increase with the dates and NaT compares false, so the usable samples come first.
        return self.slice(0, int(np.count_nonzero(self.label_end <= date)))

    def newest(self, count: int | None) -> Samples:
        """The last `count` samples, or all of them for ``None``."""
        return self if count is None else self.slice(max(len(self) - count, 0), len(self))

    def split_validation(self, count: int) -> tuple[Samples, Samples]:
        """Split into (training, validation): the last `count` samples validate, embargoed from the rest.

        A training sample stays only if its label is complete at the first validation date, so that no return
        serves both sides as a label.

        Raises
        ------
        DataError
            If no training sample is left.
        """
        if not 0 < count < len(self):
            raise DataError(f"validation takes {count} of {len(self)} samples; at least one must remain")
        validation = self.newest(count)
        training = self.slice(0, len(self) - count).usable_at(validation.dates[0])
        if len(training) == 0:
            raise DataError(
                f"no training sample has a label that ends by {validation.dates[0].date()}, the start of the "
                f"validation slice; use a longer training window or fewer than {count} validation samples"
            )
        return training, validation


def build_samples(
    returns: pd.DataFrame,
    *,
    lookback: int,
    horizon: int,
    realised_window: int,
    covariance: tuple[pd.DatetimeIndex, np.ndarray | FactorCovariance],
    stage: int = 1,
    features: FeatureRows | None = None,
) -> Samples:
    """Cut a frame of returns into samples, one for every date that has full features and a covariance.

    Parameters
    ----------
    returns : DataFrame [T, N]
        Simple daily returns without gaps, as in `PricePanel.returns`.
    lookback : int
        Days of returns in a sample's features.
    horizon : int
        Stages H the portfolio plans ahead.
    realised_window : int
        Days W after t whose returns make the realised covariance of the loss.
    covariance : (DatetimeIndex [K], ndarray [K, N, N] or FactorCovariance)
        Estimated covariances of a day's returns by date, each from returns up to its date, as
        `risk.covariance_path` or `risk.factor_path` returns.
    stage : int
        Days of one stage.
    features : FeatureRows, optional
        Values known at the closes of the last days; samples begin where their window of days has them all.

    Raises
    ------
    DataError
        If returns are not finite or no simple returns, dates do not match, or no date has enough history.
    """
    length = label_length(horizon, realised_window, stage)
    if lookback < 1:
        raise DataError(f"lookback must be at least 1 day, got {lookback}")
    values = np.array(returns.to_numpy(dtype=np.float64))  # a copy: features are views of it
    _require_finite(values, returns.index, returns.columns)
    reason = why_not_returns(returns)
    if reason is not None:
        raise DataError(f"not simple returns: {reason}")
    days = pd.DatetimeIndex(returns.index)
    without = 0 if features is None else len(days) - len(features.dated)
    first = max(without + lookback - 1, _first_covered(days, covariance[0]))
    count = len(days) - first
    if count < 1:
        raise DataError(
            f"{len(days)} returns are too few for one sample: a lookback of {lookback} days and the "
            f"covariance window must fit before the first decision date"
        )
    estimated = covariance[1][len(covariance[0]) - count :]
    assets = estimated.n_assets if isinstance(estimated, FactorCovariance) else estimated.shape[-1]
    if assets != values.shape[1]:
        raise DataError(f"covariances are of {assets} assets, but returns have {values.shape[1]} assets")

    # Labels that are not complete yet are NaN: padding with NaN rows makes them so without a special case.
    padded = np.concatenate([values, np.full((length, values.shape[1]), np.nan)])
    windows = torch.from_numpy(values).unfold(0, lookback, 1).transpose(1, 2)
    after = torch.from_numpy(padded[first + 1 :])
    stages = torch.from_numpy(compounded(padded[first + 1 :], stage))
    future = stages.unfold(0, (horizon - 1) * stage + 1, 1)[..., ::stage].transpose(1, 2)[:count]
    realised = after.unfold(0, realised_window, 1).transpose(1, 2)[:count]
    label_days = pd.DatetimeIndex(
        np.concatenate([days.to_numpy(), np.full(length, np.datetime64("NaT"), dtype=days.to_numpy().dtype)])
    )
    return Samples(
        dates=days[first:],
        features=windows[first - lookback + 1 :],
        future_returns=future,
        realised_covariance=_realised(realised, stage, parts=isinstance(estimated, FactorCovariance)),
        covariance=estimated.scaled(stage)
        if isinstance(estimated, FactorCovariance)
        else torch.from_numpy(np.array(estimated, dtype=np.float64)) * stage,
        label_end=label_days[first + length : first + length + count],
        stage=stage,
        dated=None if features is None else _windows(features.dated, lookback, count),
        by_asset=None if features is None else _windows(features.by_asset, lookback, count),
    )


def _realised(windows: Tensor, stage: int, *, parts: bool) -> Tensor | FactorCovariance:
    """Sample covariances of windows of returns [S, W, N], times the days of a stage."""
    if parts:
        return realised_factors(windows).scaled(stage)
    centred = windows - windows.mean(dim=1, keepdim=True)
    return centred.transpose(1, 2) @ centred / (windows.shape[1] - 1) * stage


def _windows(values: np.ndarray, lookback: int, count: int) -> Tensor:
    """The last windows of rows [T, ...], each of `lookback` days, oldest first: [count, lookback, ...]."""
    rows = torch.from_numpy(np.array(values, dtype=np.float64))
    return rows.unfold(0, lookback, 1).movedim(-1, 1)[len(rows) - lookback + 1 - count :]


def _first_covered(days: pd.DatetimeIndex, covered: pd.DatetimeIndex) -> int:
    """Position of the first day with a covariance; the covered days must be the last ones, all of them."""
    if len(covered) == 0 or len(covered) > len(days) or not days[len(days) - len(covered) :].equals(covered):
        raise DataError(
            "the covariances' dates are not the last dates of the returns; estimate them on the same returns"
        )
    return len(days) - len(covered)


def _require_finite(values: np.ndarray, index: pd.Index, columns: Sequence[object] | pd.Index) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"returns hold {len(bad)} values that are not finite, the first at {index[row]} in "
            f"{columns[column]}; clean the prices with an explicit policy of the panel first"
        )
