"""Built-in features against their definitions, and functions of the user's own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.data.features import BUILTIN, BuiltinFeature, OwnFeature
from portfolio_dfl.errors import DataError

TICKERS = ("A", "B", "C")


@pytest.fixture(scope="module")
def returns() -> pd.DataFrame:
    index = pd.bdate_range("2021-01-04", periods=300)
    return pd.DataFrame(np.random.default_rng(0).normal(0.0, 0.01, (300, 3)), index, list(TICKERS))


def value(kind: str, returns: pd.DataFrame, **options: object) -> np.ndarray:
    found, _ = BuiltinFeature("f", kind, TICKERS, options).known(returns, 1)
    return np.asarray(found[0, :, 0])


def test_built_in_features_are_what_their_names_say(returns: pd.DataFrame) -> None:
    prices = (1 + returns).cumprod()
    last = prices.iloc[-1]
    np.testing.assert_allclose(
        value("momentum", returns, windows=20, skip=5), prices.iloc[-6] / prices.iloc[-21] - 1, rtol=1e-12
    )
    np.testing.assert_allclose(value("reversal", returns, windows=5), -(last / prices.iloc[-6] - 1), rtol=1e-12)
    np.testing.assert_allclose(value("volatility", returns, windows=20), returns.iloc[-20:].std(), rtol=1e-12)
    seen = prices.iloc[-61:]
    np.testing.assert_allclose(value("drawdown", returns, windows=60), (seen / seen.cummax() - 1).min(), rtol=1e-12)
    np.testing.assert_allclose(value("distance_from_high", returns, windows=60), last / seen.max() - 1, rtol=1e-12)
    slope = returns.iloc[-60:].cov()["B"] / returns["B"].iloc[-60:].var()
    np.testing.assert_allclose(value("beta", returns, windows=60, market="B"), slope, rtol=1e-12)
    assert value("day_of_month", returns)[0] == returns.index[-1].day


@pytest.mark.parametrize("kind", BUILTIN)
def test_a_value_has_the_same_bits_whatever_history_lies_around_it(kind: str, returns: pd.DataFrame) -> None:
    feature = BuiltinFeature("f", kind, TICKERS)
    whole, _ = feature.known(returns, 30)
    alone, _ = feature.known(returns.iloc[-20 - feature.reach : -20], 1)
    np.testing.assert_array_equal(whole[9], alone[0])


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("value", {}, "no built-in feature is named 'value'; there are momentum"),
        ("momentum", {"days": 3}, "momentum does not take {'days': 3}"),
        ("momentum", {"windows": [5, 5]}, "windows of momentum must be different"),
        ("momentum", {"windows": [5], "skip": 5}, "windows of momentum must be at least 6"),
        ("beta", {"market": "X"}, "market of beta is X, which is none of the tickers: A, B, C"),
    ],
)
def test_options_that_do_not_fit_are_named(kind: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        BuiltinFeature("f", kind, TICKERS, options)


def test_a_function_of_ones_own_is_a_feature_and_is_caught_looking_ahead(returns: pd.DataFrame) -> None:
    feature = OwnFeature("f", lambda seen, days: seen.rolling(days).mean(), TICKERS, {"days": 3}, reach=3)
    assert (feature.by_asset, feature.columns) == (True, ("f",))
    np.testing.assert_allclose(feature.known(returns, 1)[0][0, :, 0], returns.iloc[-3:].mean(), rtol=1e-9)
    with pytest.raises(DataError, match="feature f looks ahead"):
        OwnFeature("f", lambda seen: seen - seen.mean(), TICKERS)
    with pytest.raises(DataError, match="must give a frame with the dates of the returns"):
        OwnFeature("f", lambda seen: 1.0, TICKERS)
    with pytest.raises(DataError, match="raised KeyError: "):
        OwnFeature("f", lambda seen: seen[["X"]], TICKERS)
