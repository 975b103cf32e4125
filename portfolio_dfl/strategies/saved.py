"""A trained strategy as a folder: its configuration, its newest window's parameters, its assets; ready to decide."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.parquet import parquet_bytes, read_parquet
from portfolio_dfl.errors import TrackingError
from portfolio_dfl.execution.digests import SUMS, sum_line
from portfolio_dfl.execution.own_sources import OwnSources
from portfolio_dfl.strategies.features import Tables, build_features, read_tables, table_files, write_tables
from portfolio_dfl.strategies.setting import resolve_setting
from portfolio_dfl.strategies.table import build_trained_policy, lanes

if TYPE_CHECKING:
    from portfolio_dfl.data.features import FeatureSet
    from portfolio_dfl.training.policies import PredictOptimisePolicy

__all__ = ["decide", "first_held", "load_policy", "save_strategy", "saved_columns", "saved_tickers"]

_PARTS = "parts"
_CONFIG, _WINDOW, _TICKERS, _LANE = _FILES = ("config.yaml", "window.pt", "tickers.txt", "lane.txt")
# Only where the plan counts them.
_SPREADS = "spreads.parquet"
# Columns of the prices, only where they are not called as the assets are.
_COLUMNS = "columns.txt"


def load_policy(
    folder: Path, *, spreads: pd.DataFrame | None = None, tables: Tables | None = None
) -> tuple[PredictOptimisePolicy, list[str]]:
    """A strategy that is ready to decide, and its tickers, from a folder that :func:`save_strategy` wrote.

    ``spreads`` are bid–ask spreads of new dates, and ``tables`` features, in place of those that it was trained with.

    Raises
    ------
    TrackingError
        If a file is missing or damaged.
    """
    from portfolio_dfl.training.window_files import read_window

    try:
        kept = (folder / SUMS).read_text(encoding="utf-8")
        changed = [name for name in _present(folder) if sum_line(folder, name) not in kept]
        if changed:
            raise _damaged(folder, f"{', '.join(changed)} changed")
        config = StudyConfig.from_yaml((folder / _CONFIG).read_text(encoding="utf-8"))
        tickers = saved_tickers(folder)
        slug = (folder / _LANE).read_text(encoding="utf-8").strip()
        window = read_window(folder / _WINDOW)
    except (OSError, EOFError, RuntimeError, UnpicklingError, UnicodeDecodeError) as error:
        raise _damaged(folder, str(error).partition("\n")[0]) from error
    parts = folder / _PARTS
    OwnSources.load(parts).restore(parts)
    every = lanes(config.backtest.strategies, config.training.seeds)
    lane = next(lane for lane in every if lane.slug == slug)
    if spreads is None and (folder / _SPREADS).is_file():
        spreads = read_parquet(folder / _SPREADS)
    features = build_features(config, tickers, {**read_tables(folder), **(tables or {})})
    setting = resolve_setting(config, tickers, trained=True, spreads=spreads, features=features)
    policy = build_trained_policy(setting, lane)
    policy.use(window)
    return policy, tickers


def saved_tickers(folder: Path) -> list[str]:
    """Tickers of a saved strategy.

    Raises
    ------
    TrackingError
        If the file cannot be read.
    """
    return _lines(folder, _TICKERS)


def saved_columns(folder: Path) -> dict[str, str]:
    """Column of the prices that each asset of a saved strategy is read from; errors as of :func:`saved_tickers`."""
    tickers = saved_tickers(folder)
    return dict(zip(tickers, _lines(folder, _COLUMNS) if (folder / _COLUMNS).is_file() else tickers, strict=True))


def _lines(folder: Path, name: str) -> list[str]:
    try:
        return (folder / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(folder, str(error)) from error


def _damaged(folder: Path, reason: str) -> TrackingError:
    return TrackingError(
        f"the model in {folder} is damaged: {reason}; `portfolio-dfl resume` writes a run's models again"
    )


def _present(folder: Path) -> list[str]:
    own = [path.relative_to(folder).as_posix() for path in sorted((folder / _PARTS).rglob("*.py"))]
    optional = [name for name in (_SPREADS, _COLUMNS) if (folder / name).is_file()]
    return [*_FILES, *optional, *table_files(folder), *own]


def save_strategy(
    folder: Path,
    *,
    config_yaml: str,
    window_file: Path,
    slug: str,
    tickers: Sequence[str],
    columns: Sequence[str] | None = None,
    spreads: pd.DataFrame | None = None,
    features: FeatureSet | None = None,
    sources: OwnSources | None = None,
) -> None:
    """Write what :func:`load_policy` reads, and the digests by which it knows damage.

    Columns are those of the prices, in the order of the tickers, where they have other names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _CONFIG).write_text(config_yaml, encoding="utf-8")
    (folder / _TICKERS).write_text("\n".join(tickers) + "\n", encoding="utf-8")
    (folder / _COLUMNS).unlink(missing_ok=True)
    if columns is not None:
        (folder / _COLUMNS).write_text("\n".join(columns) + "\n", encoding="utf-8")
    (folder / _LANE).write_text(slug + "\n", encoding="utf-8")
    shutil.copyfile(window_file, folder / _WINDOW)
    if spreads is not None:
        (folder / _SPREADS).write_bytes(parquet_bytes(spreads))
    write_tables(folder, features)
    if sources:
        sources.save(folder / _PARTS)
    (folder / SUMS).write_text("".join(sum_line(folder, name) for name in _present(folder)), encoding="utf-8")


def first_held(policy: PredictOptimisePolicy) -> np.ndarray:
    """Weights [N] that the strategy's trainings and backtests start from: held where nothing else is said."""
    start, count = policy.layer.initial_weights, policy.layer.n_assets
    return np.full(count, 1.0 / count) if start is None else np.array(start)


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
