"""The keys training.gradient and training.smoothing, down to what training is given."""

from __future__ import annotations

import pytest

from portfolio_dfl.allocation import Smoothing
from portfolio_dfl.config import StudyConfig
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.strategies.setting import resolve_setting

ASSETS = ["A", "B", "C"]


def test_the_gradient_is_exact_unless_a_study_says_otherwise() -> None:
    setting = resolve_setting(StudyConfig(), ASSETS, trained=True)
    assert setting.trained is not None
    assert setting.trained.settings.smoothing is None


def test_a_study_says_way_strength_samples_and_schedule() -> None:
    keys = {"way": "perturbation", "strength": 1e-3, "samples": 4, "schedule": "to_exact"}
    config = StudyConfig.parse({"training": {"gradient": "smoothed", "smoothing": keys}})
    setting = resolve_setting(config, ASSETS, trained=True)
    assert setting.trained is not None
    assert setting.trained.settings.smoothing == Smoothing("perturbation", 1e-3, 4)
    assert setting.trained.settings.smoothing_schedule == "to_exact"


@pytest.mark.parametrize("wrong", [{"way": "sigmoid"}, {"strength": 0.0}, {"samples": 3}, {"schedule": "falling"}])
def test_what_cannot_be_meant_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        StudyConfig.parse({"training": {"gradient": "smoothed", "smoothing": wrong}})
