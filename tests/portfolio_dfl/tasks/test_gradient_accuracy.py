"""The table of gradient accuracy: what it must show whatever the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.tasks.gradient_accuracy import gradient_accuracy


def test_ours_is_exact_and_the_plug_in_has_the_papers_error_with_its_u_shape(runs: Path) -> None:
    result = gradient_accuracy(
        sizes=[(10, 5), (50, 10)], instances=3, scales=[1e-5, 1e-8, 1e-12], peers=[], folder=runs
    )
    once = result.rows[result.rows["scale"].isna()].groupby("layer")["error"].mean()
    assert once["ours, exact"] < 1e-12
    assert 1e-10 < once["ours, the paper's plug-in"] < 1e-4
    large, middle, small = result.rows.groupby("scale")["error"].mean()[[1e-5, 1e-8, 1e-12]]
    assert middle < large
    assert middle < small


def test_every_peer_that_is_installed_is_compared_and_the_others_are_named(runs: Path) -> None:
    from portfolio_dfl.tasks.peers import find_peers

    here, absent = find_peers()
    result = gradient_accuracy(sizes=[(10, 5)], instances=1, scales=[1e-7], folder=runs)
    errors = result.rows.groupby("layer")["error"].mean()
    assert all(errors[name] < 1e-2 for name in here)
    assert all(name in str(result) for name in absent)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": [5]}, "not a pair"),
        ({"sizes": [(10, 0)]}, "not a pair"),
        ({"scales": [0.0]}, "positive"),
        ({"peers": ["dQQ"]}, "no peer is called"),
    ],
)
def test_settings_without_meaning_are_refused(settings: dict[str, object], message: str, runs: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        gradient_accuracy(**settings, folder=runs)  # type: ignore[arg-type]
