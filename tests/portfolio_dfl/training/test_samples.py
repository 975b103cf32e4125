"""Samples: what is in them, when their labels are known, and what cannot be built."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from portfolio_dfl.allocation import drift_weights
from portfolio_dfl.errors import DataError
from portfolio_dfl.training.decision import DecisionBook
from portfolio_dfl.training.samples import Samples, build_samples, label_length

LOOKBACK, HORIZON, REALISED, COVARIANCE_WINDOW = 6, 3, 5, 4


def random_returns(days: int = 40, assets: int = 3, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    index = pd.bdate_range("2020-01-01", periods=days)
    return pd.DataFrame(rng.normal(0, 0.01, (days, assets)), index=index, columns=list("ABCDEFG")[:assets])


def rolling_covariances(returns: pd.DataFrame) -> tuple[pd.DatetimeIndex, np.ndarray]:
    values, window = returns.to_numpy(), COVARIANCE_WINDOW
    path = [np.cov(values[i - window + 1 : i + 1].T) for i in range(window - 1, len(values))]
    return pd.DatetimeIndex(returns.index[window - 1 :]), np.stack(path)


def samples_of(returns: pd.DataFrame) -> Samples:
    return build_samples(
        returns,
        lookback=LOOKBACK,
        horizon=HORIZON,
        realised_window=REALISED,
        covariance=rolling_covariances(returns),
    )


def test_label_length_is_the_longer_of_horizon_and_realised_window() -> None:
    assert label_length(10, 20) == 20
    assert label_length(30, 20) == 30


def test_every_date_with_full_features_has_a_sample_up_to_the_last_day() -> None:
    returns = random_returns()
    samples = samples_of(returns)
    assert samples.dates.equals(returns.index[LOOKBACK - 1 :])
    assert (len(samples), samples.lookback, samples.horizon, samples.n_assets) == (35, LOOKBACK, HORIZON, 3)


def test_features_end_at_the_date_and_labels_start_on_the_next_day() -> None:
    returns = random_returns()
    samples = samples_of(returns)
    for i in (0, 7, 20):
        t = returns.index.get_loc(samples.dates[i])
        np.testing.assert_array_equal(samples.features[i], returns.iloc[t - LOOKBACK + 1 : t + 1])
        np.testing.assert_array_equal(samples.future_returns[i], returns.iloc[t + 1 : t + 1 + HORIZON])
        np.testing.assert_allclose(
            samples.realised_covariance[i],
            returns.iloc[t + 1 : t + 1 + REALISED].cov(),
            rtol=1e-12,
            atol=1e-18,
        )
        np.testing.assert_allclose(
            samples.covariance[i],
            returns.iloc[t - COVARIANCE_WINDOW + 1 : t + 1].cov(),
            rtol=1e-12,
            atol=1e-18,
        )


def test_label_end_is_the_last_return_that_changes_the_label() -> None:
    returns = random_returns()
    before = samples_of(returns)
    for i in (0, 11):
        end = returns.index.get_loc(before.label_end[i])
        for day, changes in ((end, True), (end + 1, False)):
            moved = returns.copy()
            moved.iloc[day] += 0.01
            after = samples_of(moved)
            same = torch.equal(before.realised_covariance[i], after.realised_covariance[i])
            assert same is not changes


def test_incomplete_labels_are_nan_and_never_usable() -> None:
    samples = samples_of(random_returns())
    length = label_length(HORIZON, REALISED)
    assert samples.label_end[-length:].isna().all()
    assert not samples.label_end[:-length].isna().any()
    assert torch.isnan(samples.future_returns[-1]).all()
    assert torch.isnan(samples.realised_covariance[-length:]).all()
    usable = samples.usable_at(samples.dates[-1])
    assert len(usable) == len(samples) - length
    assert torch.isfinite(usable.future_returns).all()
    assert torch.isfinite(usable.realised_covariance).all()


def test_usable_at_keeps_exactly_the_samples_whose_labels_have_ended() -> None:
    samples = samples_of(random_returns())
    for date in samples.dates[[0, 4, 5, 9, 30]]:
        usable = samples.usable_at(date)
        assert (usable.label_end <= date).all()
        assert len(usable) == (samples.label_end <= date).sum()


def test_training_labels_end_before_validation_begins() -> None:
    usable = samples_of(random_returns()).usable_at(pd.Timestamp("2020-02-20"))
    training, validation = usable.split_validation(6)
    assert training.label_end[-1] <= validation.dates[0]
    assert validation.dates.equals(usable.dates[-6:])
    assert len(training) == len(usable) - 6 - label_length(HORIZON, REALISED) + 1


def test_a_validation_slice_that_leaves_nothing_to_train_on_is_refused() -> None:
    usable = samples_of(random_returns()).newest(8)
    with pytest.raises(DataError, match="validation"):
        usable.split_validation(7)
    with pytest.raises(DataError, match="at least one must remain"):
        usable.split_validation(8)


def test_missing_returns_are_refused_with_their_place() -> None:
    returns = random_returns()
    covariances = rolling_covariances(returns)
    returns.iloc[12, 1] = np.nan
    with pytest.raises(DataError, match=r"2020-01-17.* in B"):
        build_samples(returns, lookback=3, horizon=1, realised_window=2, covariance=covariances)


def test_covariances_of_other_dates_are_refused() -> None:
    returns = random_returns()
    dates, path = rolling_covariances(returns)
    with pytest.raises(DataError, match="last dates"):
        build_samples(returns, lookback=3, horizon=1, realised_window=2, covariance=(dates[:-1], path[:-1]))


def test_too_little_history_is_refused() -> None:
    returns = random_returns(days=5)
    with pytest.raises(DataError, match="too few"):
        samples_of(returns)


@pytest.mark.parametrize(("horizon", "realised_window"), [(0, 5), (3, 1)])
def test_impossible_label_settings_are_refused(horizon: int, realised_window: int) -> None:
    with pytest.raises(DataError):
        label_length(horizon, realised_window)


@pytest.mark.parametrize("stage", [1, 2, 5])
def test_stages_of_several_days_compound_and_scale(stage: int) -> None:
    returns, daily = random_returns(), samples_of(random_returns())
    samples = build_samples(
        returns,
        lookback=LOOKBACK,
        horizon=HORIZON,
        realised_window=REALISED,
        covariance=rolling_covariances(returns),
        stage=stage,
    )
    length = label_length(HORIZON, REALISED, stage)
    assert length == max(HORIZON * stage, REALISED)
    complete = samples.usable_at(returns.index[-1])
    assert len(complete) == len(samples) - length
    wealth = (1.0 + returns).cumprod().to_numpy()
    for row in (0, len(complete) - 1):
        t = returns.index.get_loc(complete.dates[row])
        assert complete.label_end[row] == returns.index[t + length]
        grown = wealth[t + stage : t + HORIZON * stage + 1 : stage] / wealth[t : t + (HORIZON - 1) * stage + 1 : stage]
        np.testing.assert_allclose(complete.future_returns[row], grown - 1.0, atol=1e-14)
    assert torch.equal(samples.covariance, stage * daily.covariance)
    assert torch.equal(complete.realised_covariance, (stage * daily.realised_covariance)[: len(complete)])
    assert torch.equal(samples.features, daily.features)


def test_with_a_stage_of_several_days_the_book_hands_weights_to_the_decision_at_its_end() -> None:
    returns = random_returns()
    samples = build_samples(
        returns,
        lookback=LOOKBACK,
        horizon=2,
        realised_window=REALISED,
        covariance=rolling_covariances(returns),
        stage=4,
    ).usable_at(returns.index[-1])
    book = DecisionBook(samples)
    weights = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64).repeat(len(samples), 1)
    book.record(slice(0, len(samples)), weights)
    assert torch.equal(book.held[:4], torch.full((4, 3), 1 / 3, dtype=torch.float64))
    for row in (4, len(samples) - 1):
        decided = returns.index.get_loc(samples.dates[row - 4])
        drifted = weights[0].numpy()
        for day in range(decided + 1, decided + 5):
            drifted = drift_weights(drifted, returns.iloc[day].to_numpy())
        np.testing.assert_allclose(book.held[row], drifted, rtol=1e-13)
    before = book.held.clone()
    book.record(slice(len(samples) - 2, len(samples)), weights[:2])
    assert torch.equal(book.held, before)
