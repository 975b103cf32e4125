"""What to trade now: a trained strategy, fresh prices, and what is held."""

from __future__ import annotations

import datetime as dt
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.panel import build_panel
from portfolio_dfl.data.sources import FrameSource, PriceSource, open_source
from portfolio_dfl.data.tickers import ticker_text
from portfolio_dfl.data.tidy import as_day, tidy_prices
from portfolio_dfl.errors import DataError, TrackingError
from portfolio_dfl.strategies.saved import decide, load_policy
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.places import at_home
from portfolio_dfl.tracking.mlflow_store import download_model
from portfolio_dfl.wording import counted

if TYPE_CHECKING:
    from portfolio_dfl.config.sections import DataConfig

__all__ = ["Advice", "advise", "read_holdings"]


@dataclass(frozen=True)
class Advice:
    """Target weights of one date and the trades that lead there.

    Attributes
    ----------
    date : Timestamp
        Of the last price used.
    age : int
        Days since then.
    trained_on : Timestamp
        Date the strategy was last trained on.
    held, target, trades : Series
        Weights by ticker, and their difference.
    turnover, turnover_limit : float
        ‖target − held‖₁ and τ.
    """

    date: pd.Timestamp
    age: int
    trained_on: pd.Timestamp
    held: pd.Series[float]
    target: pd.Series[float]
    trades: pd.Series[float]
    turnover: float
    turnover_limit: float

    def to_frame(self) -> pd.DataFrame:
        """One row a ticker: held, target, trade."""
        return pd.DataFrame({"held": self.held, "target": self.target, "trade": self.trades})

    def __str__(self) -> str:
        table = self.to_frame().map(lambda value: f"{value:+.4f}" if value else "0").to_string()
        return (
            f"prices up to {self.date.date()} ({counted(self.age, 'day')} old), "
            f"trained on {self.trained_on.date()}\n{table}\n"
            f"turnover {self.turnover:.4f} of at most {self.turnover_limit:g}"
        )

    def _repr_html_(self) -> str:
        note = (
            f"prices up to {self.date.date()} ({counted(self.age, 'day')} old), "
            f"turnover {self.turnover:.4f} of at most {self.turnover_limit:g}"
        )
        return f"<p>{note}</p>{self.to_frame().to_html(float_format='{:.4f}'.format)}"


def advise(
    model: str | os.PathLike[str],
    *,
    prices: str | os.PathLike[str] | pd.DataFrame | None = None,
    holdings: str | os.PathLike[str] | pd.Series[float] | None = None,
    strategy: str = "decision_focused",
    root: str | os.PathLike[str] = "runs",
    max_age: int = 5,
    today: dt.date | None = None,
    start: dt.date | str | None = None,
    policies: Mapping[str, object] | None = None,
) -> Advice:
    """Decide at the last close of fresh prices.

    Parameters
    ----------
    model : path or str
        A run's folder or name, or ``models:/NAME/VERSION`` in the store of ``root``.
    prices : path or DataFrame, optional
        Adjusted closes; by default the source that the study was configured with is asked again. They are read as
        the study's were: tickers, calendar, policies, and nothing before its first date. Its last date is of the
        past: prices up to ``today`` are used.
    holdings : path or Series, optional
        What is held, see :func:`read_holdings`; equal weights by default.
    strategy : str
        Trained strategy of a run, with ``-seedK`` for a seed other than the first.
    root : path
        Folder of runs.
    max_age : int
        Calendar days that the last price may be old.
    today : date, optional
        The date that age is counted from, after which no price is looked at; by default the machine's.
    start : date, optional
        First date that is looked at, in place of the study's.
    policies : mapping, optional
        What to do about defects of fresh prices, on top of the study's policies.

    Raises
    ------
    TrackingError
        If there is no such model.
    DataError
        If prices are stale, too few, or do not fit the strategy.
    """
    folder, section = _saved(os.fspath(model), strategy, Path(root))
    with RunFolder(folder.parents[2]).importing():  # for a registered model that is no run, which tells no more
        policy, tickers = load_policy(folder)
    now = pd.Timestamp(today or dt.date.today())
    section = section.model_copy(update={"policies": {**section.policies, **(policies or {})}})
    frame = _fresh_prices(section, prices, tickers, as_day(start or section.start, "start"), now)
    date = frame.index[-1]
    age = (now - date).days
    if age > max_age:
        raise DataError(
            f"the last price is of {date.date()}, {counted(age, 'day')} old and more than the "
            f"{counted(max_age, 'day')} allowed; fetch fresh prices, or allow more with --max-age"
        )
    held = read_holdings(holdings, tickers)
    target = decide(policy, tickers, frame, held.to_numpy(dtype=np.float64)).iloc[0]
    trades = target - held
    limit = policy.layer.turnover_limit
    return Advice(
        date=date,
        age=age,
        trained_on=policy.windows[-1].date,
        held=held,
        target=target,
        trades=trades,
        turnover=float(trades.abs().sum()),
        turnover_limit=float("inf") if limit is None else float(np.ravel(limit)[0]),  # of the stage that is traded
    )


def read_holdings(holdings: str | os.PathLike[str] | pd.Series[float] | None, tickers: list[str]) -> pd.Series[float]:
    """Weights held, in the order of the tickers.

    Parameters
    ----------
    holdings : path or Series, optional
        A CSV file with a column ``ticker`` and a column ``weight`` or ``value`` (an amount of money), or the same as a
        Series by ticker; amounts are divided by their sum. Equal weights by default.
    tickers : list of str
        Of the strategy; one that is not named is not held.

    Raises
    ------
    DataError
        If the file cannot be read, a ticker is unknown or named twice, or nothing is held.
    """
    if holdings is None:
        return pd.Series(1.0 / len(tickers), index=tickers)
    held = holdings if isinstance(holdings, pd.Series) else _read_holdings_file(Path(holdings))
    held = held.set_axis([ticker_text(ticker) for ticker in held.index])
    unknown = [ticker for ticker in held.index if ticker not in tickers]
    if unknown:
        bare = {ticker.lstrip("0"): ticker for ticker in tickers}
        lost = any(bare.get(ticker, ticker) != ticker for ticker in unknown)
        hint = ": a spreadsheet may have dropped leading zeros" if lost else ""
        raise DataError(f"holdings name {', '.join(unknown)}; the strategy knows {', '.join(tickers)}{hint}")
    if not held.index.is_unique:
        raise DataError("holdings name a ticker twice: add its rows up")
    values = held.reindex(tickers).fillna(0.0).astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any() or not values.sum() > 0:
        raise DataError("holdings must be finite, not negative, and not all zero: the strategy is long only")
    return values / values.sum()


def _read_holdings_file(path: Path) -> pd.Series[float]:
    try:
        if not path.is_file():
            raise DataError(f"no holdings file {path}; write a CSV with the columns ticker and weight")
        with path.open("rb") as file:
            wide = file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE)  # as spreadsheets write what they call Unicode text
        encoding = "utf-16" if wide else "utf-8-sig"
        table = pd.read_csv(path, dtype=str, skipinitialspace=True, keep_default_na=False, encoding=encoding)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except DataError:
        raise
    except ValueError as error:  # of which pandas' and Python's own complaints about text are kinds
        raise DataError(f"{path} is not readable as CSV: {error}; write the columns ticker and weight") from error
    table.columns = table.columns.str.strip()
    amounts = [name for name in ("weight", "value") if name in table.columns]
    if "ticker" not in table.columns or not amounts:
        raise DataError(f"{path} has the columns {', '.join(table.columns)}; ticker and weight (or value) are needed")
    if table.empty:
        raise DataError(f"{path} has no row; write one for each ticker held")
    tickers, texts = table["ticker"].fillna("").str.strip(), table[amounts[0]]
    numbers = pd.to_numeric(texts, errors="coerce")
    for row in table.index[(tickers == "") | numbers.isna()]:
        raise DataError(f"{path}, line {row + 2}: {tickers[row]} {texts[row]} is not a ticker and a number")
    return pd.Series(numbers.to_numpy(dtype=np.float64), index=tickers)


def _saved(model: str, strategy: str, root: Path) -> tuple[Path, DataConfig]:
    """Folder of a saved strategy, and how its study was told to read prices."""
    if model.startswith("models:/"):
        folder = download_model(root, model) / "artifacts" / "strategy"
        config = StudyConfig.from_yaml((folder / "config.yaml").read_text(encoding="utf-8"))
        return folder, at_home(config, root.resolve()).data
    run = RunFolder.open(model, root)
    saved = sorted(path.parent.name for path in run.path.glob("strategies/*/strategy"))
    for slug in (strategy, *(name for name in saved if name.startswith(f"{strategy}-seed"))):
        if slug in saved:
            return run.path / "strategies" / slug / "strategy", run.config().data
    known = ", ".join(saved) or "none; finish the study with `portfolio-dfl resume`"
    raise TrackingError(f"run {run.name} has no trained strategy {strategy}; it has {known}")


def _fresh_prices(
    section: DataConfig,
    prices: str | os.PathLike[str] | pd.DataFrame | None,
    tickers: list[str],
    start: pd.Timestamp | None,
    now: pd.Timestamp,
) -> pd.DataFrame:
    source: PriceSource
    if isinstance(prices, pd.DataFrame):
        source = FrameSource(prices)
    else:
        source = open_source(str(prices or section.source), tickers=tickers, start=start)
    raw = source.load()
    # Of what lies outside nothing is asked, and fresh prices may begin later than the study's.
    days = tidy_prices(raw, tickers=tickers, start=start, end=now, calendar=section.calendar).prices.index
    return build_panel(
        raw, tickers=tickers, start=days[0], end=days[-1], calendar=section.calendar, policies=section.policies
    ).prices
