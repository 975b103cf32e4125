"""The decision of a trained strategy as an MLflow model: prices in, target weights out, with ``mlflow.pyfunc`` alone.

The model carries its configuration and the newest window's parameters; deciding runs the very function that training
and backtest run.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from portfolio_dfl.errors import TrackingError
from portfolio_dfl.tracking.mlflow_store import TrackedRun

if TYPE_CHECKING:
    from portfolio_dfl.training.policies import PredictOptimisePolicy

__all__ = ["PortfolioModel", "decide", "load_policy", "register_model", "save_model", "save_strategy"]

_CONFIG, _WINDOW, _TICKERS, _LANE = _FILES = ("config.yaml", "window.pt", "tickers.txt", "lane.txt")


class PortfolioModel(PythonModel):
    """Decides at the last date of the prices it is given.

    ``predict(prices, params={"held": [...]})`` takes a frame of adjusted closes with one column a ticker, at least as
    many rows as the predictor's lookback and one more, and the weights held; by default equal ones. It returns one row
    of target weights.
    """

    def load_context(self, context: PythonModelContext) -> None:
        """Rebuild the trained strategy from the model's files."""
        self.policy, self.tickers = load_policy(Path(context.artifacts["strategy"]))

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Target weights, one row dated as the last price."""
        held = np.asarray((params or {}).get("held") or [1.0 / len(self.tickers)] * len(self.tickers), dtype=np.float64)
        return decide(self.policy, self.tickers, model_input, held)


def load_policy(folder: Path) -> tuple[PredictOptimisePolicy, list[str]]:
    """A strategy that is ready to decide, and its tickers, from a folder that :func:`save_strategy` wrote.

    Raises
    ------
    TrackingError
        If a file is missing or damaged.
    """
    from pickle import UnpicklingError

    from portfolio_dfl.config.study import StudyConfig
    from portfolio_dfl.strategies.table import build_trained_policy, lanes
    from portfolio_dfl.study.folder import SUMS, read_window, sum_line

    try:
        kept = (folder / SUMS).read_text(encoding="utf-8")
        changed = [name for name in _FILES if sum_line(folder, name) not in kept]
        if changed:
            raise _damaged(folder, f"{', '.join(changed)} changed")
        config = StudyConfig.from_yaml((folder / _CONFIG).read_text(encoding="utf-8"))
        tickers = (folder / _TICKERS).read_text(encoding="utf-8").splitlines()
        slug = (folder / _LANE).read_text(encoding="utf-8").strip()
        window = read_window(folder / _WINDOW)
    except (OSError, EOFError, RuntimeError, UnpicklingError, UnicodeDecodeError) as error:
        raise _damaged(folder, str(error).partition("\n")[0]) from error
    lane = next(lane for lane in lanes(config) if lane.slug == slug)
    policy = build_trained_policy(config, lane, len(tickers))
    policy.use(window)
    return policy, tickers


def _damaged(folder: Path, reason: str) -> TrackingError:
    return TrackingError(
        f"the model in {folder} is damaged: {reason}; `portfolio-dfl resume` writes a run's models again"
    )


def save_strategy(folder: Path, *, config_yaml: str, window_file: Path, slug: str, tickers: Sequence[str]) -> None:
    """Write what :func:`load_policy` reads, and the digests by which it knows damage."""
    from portfolio_dfl.study.folder import SUMS, sum_line

    folder.mkdir(parents=True, exist_ok=True)
    (folder / _CONFIG).write_text(config_yaml, encoding="utf-8")
    (folder / _TICKERS).write_text("\n".join(tickers) + "\n", encoding="utf-8")
    (folder / _LANE).write_text(slug + "\n", encoding="utf-8")
    shutil.copyfile(window_file, folder / _WINDOW)
    (folder / SUMS).write_text("".join(sum_line(folder, name) for name in _FILES), encoding="utf-8")


def decide(
    policy: PredictOptimisePolicy, tickers: Sequence[str], prices: pd.DataFrame, held: np.ndarray
) -> pd.DataFrame:
    """Target weights at the last date of clean prices, one row.

    Raises
    ------
    TrackingError
        If tickers or held weights do not fit the strategy.
    """
    missing = [ticker for ticker in tickers if ticker not in prices.columns]
    if missing:
        raise TrackingError(f"the prices lack {', '.join(missing)}; the strategy was trained on {', '.join(tickers)}")
    if held.shape != (len(tickers),):
        raise TrackingError(f"held has {held.size} weights, the strategy has {len(tickers)} assets")
    held = np.array(held)  # the policy wants an array of its own
    returns = prices[list(tickers)].astype(np.float64).pct_change(fill_method=None).iloc[1:]
    weights = policy.decide(returns, held)
    target = held if weights is None else weights
    return pd.DataFrame([target], index=prices.index[-1:], columns=list(tickers))


def save_model(path: str | os.PathLike[str], strategy: Path, prices: pd.DataFrame) -> Path:
    """Write an MLflow model of a saved strategy, with signature and an example of its input.

    Parameters
    ----------
    path : path
        Folder of the model; an older one is replaced.
    strategy : path
        Folder that :func:`save_strategy` wrote.
    prices : DataFrame
        Prices that end where the strategy was trained; the example is their last rows.
    """
    import mlflow.pyfunc
    from mlflow.models import infer_signature

    target = Path(path)
    if target.exists():
        shutil.rmtree(target)
    policy, tickers = load_policy(strategy)
    rows = max(policy.lookback, policy.covariance.window) + 1
    example = prices[tickers].iloc[-rows:]
    held = [1.0 / len(tickers)] * len(tickers)
    signature = infer_signature(example, decide(policy, tickers, example, np.array(held)), params={"held": held})
    with _silent():
        mlflow.pyfunc.save_model(
            target,
            python_model=str(Path(__file__).with_name("served_model.py")),
            artifacts={"strategy": str(strategy)},
            signature=signature,
            input_example=example,
            pip_requirements=["portfolio-dfl"],
        )
    return target


@contextmanager
def _silent() -> Iterator[None]:
    """Without MLflow's remarks on every model saved, and its progress bars of copied files."""
    logger, variable = logging.getLogger("mlflow"), "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
    level, before = logger.level, os.environ.get(variable)
    logger.setLevel(logging.ERROR)
    os.environ[variable] = "false"
    try:
        yield
    finally:
        logger.setLevel(level)
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def register_model(run: TrackedRun, name: str) -> str:
    """Register the artifact ``model`` of a run as the next version of ``name``; returns its URI.

    A run that is resumed keeps the version it has.
    """
    from mlflow.exceptions import MlflowException

    client = run.store.client
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise TrackingError(f"MLflow did not take the model name {name}: {error}") from error
    for version in client.search_model_versions(f"name = '{name}'"):
        if version.run_id == run.run_id:
            return f"models:/{name}/{version.version}"
    source = f"{client.get_run(run.run_id).info.artifact_uri}/model"
    return f"models:/{name}/{client.create_model_version(name, source, run.run_id).version}"
