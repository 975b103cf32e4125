"""The study schema: round trips through YAML, overrides, and errors that name the key and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from portfolio_dfl.config import StudyConfig, load_config
from portfolio_dfl.errors import ConfigError

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("comments", [False, True])
def test_a_shipped_configuration_survives_writing_and_reading(path: Path, comments: bool) -> None:
    config = load_config(path)
    assert StudyConfig.from_yaml(config.to_yaml(comments=comments)) == config


def test_every_default_is_written_out() -> None:
    assert set(StudyConfig().flat()) >= {"training.epochs", "data.source", "allocation.turnover_limit"}
    assert StudyConfig.from_yaml("") == StudyConfig()


def test_overrides_replace_single_values_and_read_them_as_yaml() -> None:
    config = load_config(None, ["training.epochs=5", "data.tickers=[VTI, AGG]", "training.learning_rate=1e-2"])
    assert (config.training.epochs, config.data.tickers) == (5, ["VTI", "AGG"])
    assert config.training.learning_rate == 0.01
    assert config.training.retrain_every == StudyConfig().training.retrain_every


def test_an_override_reaches_into_free_options() -> None:
    assert load_config(None, ["forecasting.options.hidden=32"]).forecasting.options == {"hidden": 32}


def test_a_later_override_wins_and_can_mend_a_file(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("training: {epochs: none}\n")
    assert load_config(file, ["training.epochs=1", "training.epochs=2"]).training.epochs == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.epoch=5", "unknown key training.epoch; the nearest is training.epochs"),
        ("epochs=5", "the nearest is training.epochs"),
        ("trainin.epochs=5", "the nearest is training"),
        ("training.epochs=five", "training.epochs: input should be a valid integer"),
        ("training.epochs=0", "training.epochs: input should be greater than or equal to 1"),
        ("training.epochs", "write dotted.key=value"),
        ("=5", "write dotted.key=value"),
        ("data.start=2020-13-01", "the value of data.start is not valid YAML"),
        ("data.source.x=1", "source holds a single value"),
        ("allocation.risk_aversion=.nan", "allocation.risk_aversion: input should be"),
        ("allocation.turnover_limit=[0.1]", "turnover_limit has 1 numbers for 5 stages"),
        ("allocation.turnover_limit=0", "should be greater than 0"),
        ("data.tickers=[VTI]", "at least two tickers"),
        ("data.tickers=[VTI, AGG, VTI]", "named twice: VTI"),
        ("training.seeds=[1, 1]", "seeds must differ"),
        ("execution.backend=ray", "needs the address"),
        ("backtest.strategies=[foo]", "backtest.strategies.0"),
        ("name=a/b", "name"),
    ],
)
def test_an_unusable_override_is_refused_with_its_key(override: str, message: str) -> None:
    values = ["data.source=x", override]
    with pytest.raises(ConfigError, match=r".*") as caught:
        load_config(None, values)
    assert message in str(caught.value)


def test_dates_must_be_in_order() -> None:
    with pytest.raises(ConfigError, match="start 2021-01-01 must lie before end 2020-01-01"):
        load_config(None, ["backtest.start=2021-01-01", "backtest.end=2020-01-01"])


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"(?s)(?=.*training\.epoch;).*allocation\.horizon"):
        load_config(None, ["training.epoch=1", "allocation.horizon=0"])


def test_a_key_given_twice_in_a_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="'name' is given twice"):
        StudyConfig.from_yaml("name: a\nname: b\n")


@pytest.mark.parametrize("text", ["- a\n", "3", "a: [", "\x00"])
def test_text_that_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        StudyConfig.from_yaml(text)


def test_a_missing_file_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no configuration file .*portfolio-dfl config"):
        load_config(tmp_path / "absent.yaml")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(file)
