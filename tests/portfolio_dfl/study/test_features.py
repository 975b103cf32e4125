"""Studies with features: from YAML and from Python, resumed without their files, and predicting with fresh ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import brief, same_weights

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.sources import EmbeddedSource
from portfolio_dfl.errors import ConfigError, DataError
from portfolio_dfl.study.check import check_study
from portfolio_dfl.study.live import advise
from portfolio_dfl.study.result import StudyResult
from portfolio_dfl.study.run import resume_study, run_study

EXAMPLE = """
features:
  macro: {source: MACRO, lag: 1, max_age: 10}
  size: {source: SIZE, known_at: released, columns: [size]}
  momentum: {builtin: momentum, options: {windows: [5, 20], skip: 1}}
forecasting: {predictor: pooled, prior: equilibrium, options: {intercept: asset, interactions: true}, ensemble: 2}
training: {two_stage: least_squares}
"""


def tables(folder: Path) -> tuple[Path, Path]:
    """A table by date and one by date and ticker, as files."""
    prices = EmbeddedSource().load().loc["2017-06-01":"2018-12-31"]
    rng = np.random.default_rng(0)
    macro = pd.DataFrame(rng.normal(size=(len(prices), 2)), prices.index, ["vix", "term"]).iloc[::3]
    macro.rename_axis("date").to_csv(folder / "macro.csv")
    quarters = pd.date_range("2017-06-30", "2018-12-31", freq="QE")
    size = pd.DataFrame(rng.normal(size=(len(quarters), prices.shape[1])), quarters, prices.columns)
    long = size.rename_axis("date").reset_index().melt("date", var_name="ticker", value_name="size")
    long.assign(released=long["date"] + pd.Timedelta(days=30)).to_parquet(folder / "size.parquet")
    return folder / "macro.csv", folder / "size.parquet"


def featured(folder: Path, macro: Path, size: Path) -> StudyConfig:
    changed = StudyConfig.from_yaml(EXAMPLE.replace("MACRO", str(macro)).replace("SIZE", str(size)))
    study = brief(folder)
    forecasting = changed.forecasting.model_copy(update={"lookback": study.forecasting.lookback})
    training = study.training.model_copy(update={"two_stage": "least_squares"})
    return study.model_copy(update={"features": changed.features, "forecasting": forecasting, "training": training})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyResult, Path, Path]:
    folder = tmp_path_factory.mktemp("featured")
    macro, size = tables(folder)
    return run_study(featured(folder, macro, size)), macro, size


def test_a_study_goes_on_without_the_files_of_its_features(
    finished: tuple[StudyResult, Path, Path], tmp_path: Path
) -> None:
    result, macro, size = finished
    assert len(result.failed_windows) == 0
    assert len(result.facts["features_sha256"]) == 64
    kept = sorted((result.folder / "windows").iterdir())
    kept[0].unlink()  # as after a kill
    moved = [file.rename(tmp_path / file.name) for file in (macro, size)]
    try:
        assert same_weights(resume_study(result.folder), result)
        with pytest.raises(DataError, match="feature macro: no file at"):
            advise(result.folder, max_age=10_000)
    finally:
        for file, place in zip(moved, (macro, size), strict=True):
            file.rename(place)


def test_a_prediction_reads_features_anew(finished: tuple[StudyResult, Path, Path]) -> None:
    result, macro, _ = finished
    today = pd.Timestamp("2018-12-31").date()
    asked = advise(result.folder, today=today, strategy="two_stage")
    assert asked.target.sum() == pytest.approx(1.0)
    other = pd.read_csv(macro, index_col=0, parse_dates=True) * -5.0
    changed = advise(result.folder, today=today, strategy="two_stage", features={"macro": other})
    assert not changed.target.equals(asked.target)
    with pytest.raises(DataError, match="more than its max_age"):
        advise(result.folder, today=today, features={"macro": other.loc[:"2018-06-01"]})
    with pytest.raises(ConfigError, match="features: rates are given and not in the configuration; there are macro"):
        advise(result.folder, today=today, features={"rates": other})


def test_frames_given_in_python_lead_to_the_same_weights(
    finished: tuple[StudyResult, Path, Path], tmp_path: Path
) -> None:
    result, macro, size = finished
    study = featured(tmp_path, macro, size)
    without = {
        name: section.model_copy(update={"source": None}) if section.source else section
        for name, section in study.features.items()
    }
    frames = {"macro": pd.read_csv(macro), "size": pd.read_parquet(size)}
    assert same_weights(run_study(study.model_copy(update={"features": without}), features=frames), result)


def test_what_is_missing_is_heard_of_before_anything_is_trained(tmp_path: Path) -> None:
    macro, size = tables(tmp_path)
    late = pd.read_csv(macro).iloc[80:]
    late.to_csv(macro, index=False)
    with pytest.raises(DataError, match=r"feature macro: vix was not known yet on 2018-.* start later"):
        run_study(featured(tmp_path, macro, size))
    assert not list(tmp_path.glob("small-*"))
    assert check_study(featured(tmp_path, macro, size)).usable


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{source: a.csv}", "say when its values were known: lag: 0"),
        ("{source: a.csv, builtin: beta, lag: 0}", "source and builtin are given"),
        ("{builtin: beta, lag: 1}", "lag are of tables; builtin sees returns up to the decision"),
        ("{source: a.csv, lag: 0, delay: 1}", "unknown key features.f.delay"),
    ],
)
def test_a_section_that_cannot_be_is_explained(section: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StudyConfig.from_yaml(f"features: {{f: {section}}}")
