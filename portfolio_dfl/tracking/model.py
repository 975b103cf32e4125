"""The decision of a trained strategy as an MLflow model: prices in, target weights out, with ``mlflow.pyfunc`` alone.

The model carries its configuration and the newest window's parameters; deciding runs the very function that training
and backtest run.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from portfolio_dfl.execution.process import SharedChange, log_level, variable
from portfolio_dfl.strategies.saved import decide, first_held, load_policy
from portfolio_dfl.tracking.mlflow_store import TrackedRun, reported

__all__ = ["PortfolioModel", "register_model", "save_model"]


class PortfolioModel(PythonModel):
    """Decides at the last date of the prices it is given.

    ``predict(prices, params={"held": [...]})`` takes a frame of adjusted closes with one column a ticker, at least as
    many rows as the predictor's lookback and one more, and the weights held; by default those that the study started
    from. It returns one row of target weights.
    """

    def load_context(self, context: PythonModelContext) -> None:
        """Rebuild the trained strategy from the model's files."""
        self.policy, self.tickers = load_policy(Path(context.artifacts["strategy"]))

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Target weights, one row dated as the last price."""
        given = (params or {}).get("held")
        held = np.asarray(given, dtype=np.float64) if given else first_held(self.policy)
        return decide(self.policy, self.tickers, model_input, held)


def save_model(path: str | os.PathLike[str], strategy: Path, prices: pd.DataFrame) -> Path:
    """Write an MLflow model of a saved strategy, with signature and an example of its input.

    Parameters
    ----------
    path : path
        Folder of the model; an older one is replaced.
    strategy : path
        Folder that :func:`~portfolio_dfl.strategies.saved.save_strategy` wrote.
    prices : DataFrame
        Prices that end where the strategy was trained; the example is their last rows.
    """
    import mlflow.pyfunc
    from mlflow.models import infer_signature

    target = Path(path)
    if target.exists():
        shutil.rmtree(target)
    policy, tickers = load_policy(strategy)
    rows = policy.returns_to_decide + 1
    example = prices[tickers].iloc[-rows:]
    held = first_held(policy)
    params = {"held": held.tolist()}
    signature = infer_signature(example, decide(policy, tickers, example, held), params=params)
    with _silent:
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
def _without_remarks() -> Iterator[None]:
    with log_level("mlflow", logging.ERROR), variable("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false"):
        yield


# MLflow has remarks on every model saved, and progress bars of copied files.
_silent = SharedChange(_without_remarks)


def register_model(run: TrackedRun, name: str) -> str:
    """Register the artifact ``model`` of a run as the next version of ``name``; returns its URI.

    A run that is resumed keeps the version it has.
    """
    from mlflow.exceptions import MlflowException

    client = run.store.client
    with reported(f"the model name {name}", run.store.uri):
        try:
            client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        for version in client.search_model_versions(f"run_id = '{run.run_id}'"):
            if version.name == name:
                return f"models:/{name}/{version.version}"
        source = f"{client.get_run(run.run_id).info.artifact_uri}/model"
        return f"models:/{name}/{client.create_model_version(name, source, run.run_id).version}"
