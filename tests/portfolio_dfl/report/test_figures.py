"""What figures draw: many assets, seeds, short positions, lines that coincide."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from portfolio_dfl.report.attribution import contribution_bars, largest_contributions
from portfolio_dfl.report.distribution import histogram
from portfolio_dfl.report.holdings import by_group, key_of, largest_and_rest, weights_over_time
from portfolio_dfl.report.looks import looks_of
from portfolio_dfl.report.months import months_by_years
from portfolio_dfl.report.paths import level, wealth
from portfolio_dfl.strategies.table import Appearance, lanes

DAYS = pd.bdate_range("2020-01-01", periods=50)


def frame(assets: int, seed: int = 0) -> pd.DataFrame:
    raw = np.random.default_rng(seed).dirichlet(np.ones(assets), len(DAYS))
    return pd.DataFrame(raw, DAYS, [f"A{place}" for place in range(assets)])


def test_a_dozen_assets_are_shown_apart_and_more_as_the_ten_largest_and_the_rest() -> None:
    assert largest_and_rest({"x": frame(12)})["x"].shape[1] == 12
    one, other = frame(40), frame(40, 1)
    shown = largest_and_rest({"x": one, "y": other})
    size = (one.abs().mean() + other.abs().mean()).nlargest(10)
    assert list(shown["x"].columns) == list(shown["y"].columns) == [*size.index, "the other 30"]
    np.testing.assert_allclose(shown["x"].sum(axis=1), 1.0)
    np.testing.assert_allclose(shown["x"]["the other 30"], one.drop(columns=size.index).sum(axis=1))


def test_groups_add_up_to_all() -> None:
    held = frame(4)
    summed = by_group(held, {"A0": "bonds", "A1": "bonds", "A2": "gold"})
    assert list(summed.columns) == ["bonds", "gold", "no group"]
    np.testing.assert_allclose(summed["bonds"], held["A0"] + held["A1"])
    np.testing.assert_allclose(summed.sum(axis=1), 1.0)


def test_short_positions_hang_below_zero() -> None:
    held = pd.DataFrame({"A": 1.4, "B": -0.4}, DAYS)
    figure = weights_over_time(held, key_of([held]))
    sides = {trace.name: (trace.stackgroup, float(trace.y[0])) for trace in figure.data}
    assert sides == {"A": ("long", 1.4), "B": ("long", 0.0), "B, short": ("short", -0.4)}
    low, high = figure.layout.yaxis.range
    assert low < -0.4
    assert high == pytest.approx(1.4)


def test_seeds_of_a_strategy_differ_in_colour_and_dash() -> None:
    looks = looks_of(lanes(["two_stage", "equal_weight"], [0, 1, 2]))
    mine = [look for label, look in looks.items() if label.startswith("Two-stage")]
    assert len({(look.colour, look.dash) for look in mine}) == 3
    assert len({look.dash for look in mine}) == 3
    assert looks["Two-stage, seed 0"].colour == lanes(["two_stage"], [0])[0].look.colour
    assert looks["Equal weight"] == lanes(["equal_weight"], [0])[0].look


def test_a_line_that_covers_another_is_dashed() -> None:
    path = pd.Series(np.linspace(1.0, 2.0, len(DAYS)), DAYS)
    looks = [Appearance(name, colour) for name, colour in (("a", "#112233"), ("b", "#445566"), ("c", "#778899"))]
    figure = level({look.label: (look, values) for look, values in zip(looks, (path, path, 3.0 - path), strict=True)})
    assert [trace.line.dash for trace in figure.data] == ["dash", "solid", "solid"]
    flat = level({look.label: (look, 0.0 * path + 1.0 + 1e-15 * place) for place, look in enumerate(looks)})
    assert [trace.line.dash for trace in flat.data] == ["dash", "dash", "solid"]


def test_wealth_has_the_scale_that_is_asked_for() -> None:
    look = Appearance("a", "#112233")
    steep = {"a": (look, pd.Series(np.geomspace(1.0, 4.0, len(DAYS)), DAYS))}
    assert wealth(steep).layout.yaxis.type == "log"
    assert wealth(steep, log=False).layout.yaxis.type == "linear"
    flat = {"a": (look, pd.Series(np.linspace(1.0, 1.5, len(DAYS)), DAYS))}
    assert wealth(flat).layout.yaxis.type == "linear"
    assert wealth(flat, log=True).layout.yaxis.type == "log"


def test_long_lines_are_thinned_and_keep_their_end() -> None:
    days = pd.bdate_range("2000-01-03", periods=3001)
    values = pd.Series(np.arange(3001.0), days)
    (trace,) = level({"a": (Appearance("a", "#112233"), values)}).data
    assert len(trace.x) < 620
    assert float(trace.y[-1]) == 3000.0
    assert trace.x[-1] == f"{days[-1]:%Y-%m-%d}"


def test_a_histogram_counts_every_row_once() -> None:
    values = pd.Series(np.random.default_rng(0).normal(size=200))
    (trace,) = histogram({"a": (Appearance("a", "#112233"), values)}).data
    assert np.sum(trace.y) == pytest.approx(1.0)
    assert len(trace.x) == len(trace.y)


def test_a_heat_map_writes_per_cent_and_leaves_gaps() -> None:
    table = pd.DataFrame([[0.012, -0.0301, -1e-6, *[np.nan] * 9, -0.018]], [2020], [*range(1, 13), "year"])
    (trace,) = months_by_years(table).data
    assert list(trace.text[0]) == ["1.2", "−3.0", "0.0", *[""] * 9, "−1.8"]
    assert trace.zmax == pytest.approx(0.0301)


def test_bars_of_many_assets_add_up_and_are_not_dwarfed_by_the_rest() -> None:
    rows = [f"A{place}" for place in range(100)]
    table = pd.DataFrame({"weight": 0.01, "return": 0.02, "risk": np.linspace(0.001, 0.002, 100)}, rows)
    shown = largest_contributions(table)
    assert len(shown) == 11
    np.testing.assert_allclose(shown.sum(), table.sum())
    figure = contribution_bars(shown["return"], "contribution to return")
    assert np.isnan(figure.data[0].x[0])
    assert [note.text for note in figure.layout.annotations] == ["180.0%, beyond the scale"]
    few = contribution_bars(table["return"].iloc[:5], "contribution to return")
    assert not few.layout.annotations
