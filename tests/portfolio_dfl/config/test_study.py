"""The study schema: round trips through YAML, overrides, and errors that name the key and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from portfolio_dfl.config.study import StudyConfig, load_config
from portfolio_dfl.errors import ConfigError

CONFIGS = sorted((Path(__file__).resolve().parents[3] / "configs").glob("*.yaml"))


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
        ("training.epochs=five", "training.epochs: a whole number is needed, not 'five'"),
        ("training.epochs=0", "training.epochs: a number of at least 1 is needed, not 0"),
        ("training.epochs", "write dotted.key=value"),
        ("=5", "write dotted.key=value"),
        ("data.start=2020-13-01", "the value of data.start is not valid YAML"),
        ("data.source.x=1", "source holds a single value"),
        ("allocation.risk_aversion=.nan", "allocation.risk_aversion: a finite number is needed, not nan"),
        ("allocation.turnover_limit=[0.1]", "turnover_limit has 1 numbers for 5 stages"),
        ("allocation.turnover_limit=0", "a number above 0 or null is needed, not 0"),
        ("allocation.turnover_limit=.nan", "allocation.turnover_limit: a finite number or null is needed, not nan"),
        ("allocation.turnover_limit=.inf", "allocation.turnover_limit: a finite number or null is needed, not inf"),
        ("allocation.turnover_limit=x", "allocation.turnover_limit: a number or a list or null is needed, not 'x'"),
        ("allocation.turnover_limit=[1, .nan, x]", "limit.1: a finite number is needed, not nan; "),
        ("allocation.turnover_limit=[1, .nan, x]", "allocation.turnover_limit.2: a number is needed, not 'x'"),
        ("allocation.max_weight=2", "allocation.max_weight: a number of at most 1 or null is needed, not 2"),
        ("evaluation.cost_levels=[.nan]", "evaluation.cost_levels.0: a finite number is needed, not nan"),
        ("evaluation.cost_levels=[]", "evaluation.cost_levels: a list of at least 1 is needed, not []"),
        ("training.loss={mse: .nan}", "training.loss.mse: a finite number is needed, not nan"),
        ("training.loss=3", "training.loss: text or keys with a value each is needed, not 3"),
        ("training.loss_options={sharpe: {floor: .inf}}", "loss_options.sharpe.floor: a finite number is needed, not"),
        ("training.warm_start=7", "training.warm_start: true or false is needed, not 7"),
        ("forecasting.options={hidden: [.nan]}", "forecasting.options.hidden: 0: a finite number is needed, not nan"),
        ("backtest.lag=.nan", "backtest.lag: 0 or 1 is needed, not nan"),
        ("data.start=soon", "data.start: a date such as 2020-01-31 or null is needed, not 'soon'"),
        ("tracking.folder=3", "tracking.folder: a path is needed, not 3"),
        ("sweep.space={training.epochs: 5}", "sweep.space.training.epochs: a list or keys with a value each is needed"),
        ("sweep.space={training.epochs: {low: .nan, high: 3}}", "training.epochs.low: a finite number is needed, not"),
        ("sweep.space={training.epochs: {lo: 1, high: 3}}", "epochs.lo: only 'low', 'high' or 'log' may stand here"),
        ("sweep.space={training.ridge: [1, .nan]}", "sweep.space.training.ridge.1: a finite number is needed, not nan"),
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
    for word in ("input", "should be", "constrained", "[float", "list[", "dict["):  # how pydantic would put it
        assert word not in str(caught.value)


def test_dates_of_a_search_are_kept_as_texts() -> None:
    """What keeps the search knows no dates."""
    config = load_config(None, ["sweep.space={backtest.end: [2018-05-01]}"])
    assert config.sweep.space == {"backtest.end": ["2018-05-01"]}


def test_dates_must_be_in_order() -> None:
    with pytest.raises(ConfigError, match="start 2021-01-01 must lie before end 2020-01-01"):
        load_config(None, ["backtest.start=2021-01-01", "backtest.end=2020-01-01"])


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"(?s)(?=.*training\.epoch;).*allocation\.horizon"):
        load_config(None, ["training.epoch=1", "allocation.horizon=0"])


def test_an_impossible_date_in_a_file_is_found_by_its_line() -> None:
    with pytest.raises(ConfigError, match=r"2020-02-31 is no date: day is out of range for month at line 2, column 10"):
        StudyConfig.from_yaml("backtest:\n  start: 2020-02-31\n")


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
