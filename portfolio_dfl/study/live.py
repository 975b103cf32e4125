"""What to trade now: a trained strategy, fresh prices, and what is held."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from portfolio_dfl.allocation.limits import Limits
from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.panel import build_panel
from portfolio_dfl.data.sources import FrameSource, PriceSource, open_source
from portfolio_dfl.data.tidy import as_day, tidy_prices
from portfolio_dfl.errors import DataError, TrackingError
from portfolio_dfl.strategies.cash import with_cash, without_cash
from portfolio_dfl.strategies.features import Tables
from portfolio_dfl.strategies.saved import decide, first_held, load_policy, saved_columns, saved_tickers
from portfolio_dfl.study.folder import RunFolder
from portfolio_dfl.study.holdings import CASH, Holdings, HoldingsLike, parse_holdings, read_holdings
from portfolio_dfl.study.orders import Orders, place_orders
from portfolio_dfl.study.places import at_home
from portfolio_dfl.study.span import load_spreads, rebalancing_of
from portfolio_dfl.tracking.mlflow_store import download_model
from portfolio_dfl.wording import counted

if TYPE_CHECKING:
    from portfolio_dfl.config.sections import DataConfig

__all__ = ["FORMATS", "Advice", "advise", "read_holdings", "require_format"]

#: What an advice can be written as.
FORMATS = ("table", "csv", "json")


def require_format(kind: str) -> None:
    """Raise DataError unless an advice can be written as this."""
    if kind not in FORMATS:
        raise DataError(f"an advice has no format {kind!r}; there are {', '.join(FORMATS)}")


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
    assumed : bool
        Whether nobody said what is held, so that it is what the study started from.
    turnover, turnover_limit : float
        ‖target − held‖₁ and τ.
    orders : Orders or None
        The trades in shares, where prices and the wealth are known.
    rebalancing : str
        How often the study decides, in words.
    due : bool
        Whether ``date`` is one of its decision dates; otherwise the study would trade nothing on it.
    next_decision : Timestamp or None
        The decision date after it, by the study's calendar; None where it cannot be told.
    """

    date: pd.Timestamp
    age: int
    trained_on: pd.Timestamp
    held: pd.Series[float]
    target: pd.Series[float]
    trades: pd.Series[float]
    turnover: float
    turnover_limit: float
    orders: Orders | None = None
    rebalancing: str = "daily"
    due: bool = True
    next_decision: pd.Timestamp | None = None
    assumed: bool = False

    @property
    def _begins(self) -> str:
        """A clause about holdings that nobody gave; nothing where they were given."""
        if not self.assumed:
            return ""
        return "no holdings were given: held is what the study started from, not what it held last"

    @property
    def schedule(self) -> str:
        """Whether the study would trade on the date, and when it decides next; nothing for daily decisions."""
        if self.rebalancing == "daily":
            return ""
        today = "is a decision date" if self.due else "is no decision date: the study would hold what is held"
        following = "" if self.next_decision is None else f"; the next is {self.next_decision.date()}"
        return f"decided {self.rebalancing}: {self.date.date()} {today}{following}"

    def to_frame(self) -> pd.DataFrame:
        """One row a ticker: held, target, trade; with orders also price, shares held, to trade and held afterwards."""
        table = pd.DataFrame({"held": self.held, "target": self.target, "trade": self.trades})
        orders = self.orders
        if orders is None:
            return table
        return table.assign(
            price=orders.prices, shares_held=orders.held, shares_trade=orders.trades, shares_target=orders.target
        )

    def text(self, kind: str = "table") -> str:
        """The advice as a table for people, as CSV, or as JSON.

        CSV has one row a ticker, and one for the cash that orders leave over; JSON the numbers beside them too.

        Raises
        ------
        DataError
            If there is no such kind.
        """
        require_format(kind)
        if kind == "table":
            return str(self)
        table = self.to_frame().rename_axis("ticker").reset_index()
        if kind == "csv":
            if self.orders is not None:
                left = pd.DataFrame({"ticker": [CASH], "shares_target": [self.orders.cash]})
                table = pd.concat([table, left], ignore_index=True)
            return table.to_csv(index=False).rstrip("\n")
        facts: dict[str, Any] = {
            "date": str(self.date.date()),
            "age_days": self.age,
            "trained_on": str(self.trained_on.date()),
            "holdings_given": not self.assumed,
            "turnover": self.turnover,
            "turnover_limit": self.turnover_limit if np.isfinite(self.turnover_limit) else None,
        }
        if self.orders is not None:
            orders = {name: getattr(self.orders, name) for name in ("lot", "wealth", "turnover", "cost", "cash")}
            facts["orders"] = orders
        return json.dumps({**facts, "assets": table.to_dict(orient="records")}, indent=1)

    def __str__(self) -> str:
        weights = self.to_frame()[["held", "target", "trade"]].map(_four_digits)
        orders = []
        if self.orders is not None:
            shares = self.to_frame().drop(columns=weights.columns)
            weights = weights.join(shares.map(lambda value: f"{value:,.6g}"))
            orders = [str(self.orders)]
        return "\n".join(
            [
                f"prices up to {self.date.date()} ({counted(self.age, 'day')} old), "
                f"trained on {self.trained_on.date()}",
                weights.to_string(),
                f"turnover {self.turnover:.4f} of at most {self.turnover_limit:g}",
                *([self._begins] if self.assumed else []),
                *([self.schedule] if self.schedule else []),
                *orders,
            ]
        )

    def _repr_html_(self) -> str:
        note = (
            f"prices up to {self.date.date()} ({counted(self.age, 'day')} old), "
            f"turnover {self.turnover:.4f} of at most {self.turnover_limit:g}"
            + "".join(f"; {clause}" for clause in (self._begins, self.schedule) if clause)
        )
        return f"<p>{note}</p>{self.to_frame().to_html(float_format='{:.4f}'.format)}"


def advise(
    model: str | os.PathLike[str],
    *,
    prices: str | os.PathLike[str] | pd.DataFrame | None = None,
    holdings: HoldingsLike | None = None,
    strategy: str = "decision_focused",
    root: str | os.PathLike[str] = "runs",
    max_age: int = 5,
    today: dt.date | None = None,
    start: dt.date | str | None = None,
    policies: Mapping[str, object] | None = None,
    wealth: float | None = None,
    lot: int | None = None,
    spreads: str | os.PathLike[str] | pd.DataFrame | None = None,
    features: Tables | None = None,
    uri: str | None = None,
) -> Advice:
    """Decide at the last close of fresh prices.

    Parameters
    ----------
    model : path or str
        A run's folder or name, or ``models:/NAME/VERSION`` in the store of ``root`` or in that of ``uri``.
    prices : path or DataFrame, optional
        Adjusted closes; by default the source that the study was configured with is asked again. They are read as
        the study's were: tickers, calendar, policies, and nothing before its first date. Its last date is of the
        past: prices up to ``today`` are used.
    holdings : path, Series or DataFrame, optional
        What is held, see :func:`~portfolio_dfl.study.holdings.parse_holdings`; by default the weights that the study
        started from, equal ones but for ``allocation.repair``. Shares are worth the last of the prices.
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
    wealth : float, optional
        In money, where holdings are weights: trades are then given in shares too, as they are for holdings in shares.
    lot : int, optional
        Shares that are traded at once, 1 by default; trades are rounded to it towards none, which keeps the turnover
        limit, and paid for without debts. What that leaves in cash is in ``Advice.orders``.
    spreads : path or DataFrame, optional
        Bid–ask spreads up to the last price, where the study's costs have them; by default its own table is read
        again.
    features : mapping, optional
        Fresh tables of features by name, as files or frames; by default the sources that the study was configured with
        are read again.
    uri : str, optional
        Store of a registered model, as in ``tracking.uri``: ``http://HOST:PORT`` of a server; by default the local one
        of ``root``.

    Raises
    ------
    TrackingError
        If there is no such model, or the server does not answer.
    DataError
        If prices are stale, too few, or do not fit the strategy.
    """
    folder, config = _saved(os.fspath(model), strategy, Path(root), uri)
    section, tickers = config.data, saved_tickers(folder)
    with RunFolder(folder.parents[2]).importing():  # for a registered model that is no run, which tells no more
        policy, _ = load_policy(
            folder, spreads=_fresh_spreads(config, tickers, spreads), tables=_fresh_tables(config, features)
        )
    now = pd.Timestamp(today or dt.date.today())
    section = section.model_copy(update={"policies": {**section.policies, **(policies or {})}})
    priced = without_cash(config, tickers)
    columns = saved_columns(folder)
    asked = [columns[ticker] for ticker in priced]
    fresh = _fresh_prices(section, prices, asked, as_day(start or section.start, "start"), now)
    frame = with_cash(config, fresh.set_axis(priced, axis=1))
    date = frame.index[-1]
    age = (now - date).days
    if age > max_age:
        raise DataError(
            f"the last price is of {date.date()}, {counted(age, 'day')} old and more than the "
            f"{counted(max_age, 'day')} allowed; fetch fresh prices, or allow more with --max-age"
        )
    limits = Limits.collect(len(tickers), policy.layer.limits, tickers)
    short = [ticker for ticker, lower in zip(tickers, limits.lower, strict=True) if lower < 0.0]
    cash = policy.costs.cash
    if holdings is None:
        book = Holdings(pd.Series(first_held(policy), index=tickers))
    else:
        book = parse_holdings(holdings, tickers, prices=frame.iloc[-1], short=short, cash=cash)
    held = book.weights
    if wealth is not None and book.wealth is not None:
        raise DataError(f"holdings are worth {book.wealth:,.2f} by themselves: leave out --wealth")
    target = decide(policy, tickers, frame, held.to_numpy(dtype=np.float64)).iloc[0]
    trades = target - held
    money = book.wealth if wealth is None else wealth
    if lot is not None and money is None:
        raise DataError("lots of shares need a wealth: give --wealth, or holdings as values or shares")
    orders = None
    if money is not None and (lot is not None or wealth is not None or book.shares is not None):
        orders = place_orders(
            target, held, frame.iloc[-1], money, lot=1 if lot is None else lot, shares=book.shares, costs=policy.costs
        )
    limit = policy.layer.turnover_limit
    rebalancing = rebalancing_of(config)
    due, following = True, None
    if rebalancing.rule != "daily":
        due, following = rebalancing.outlook(pd.DatetimeIndex(frame.index), policy.windows[-1].date)
    return Advice(
        date=date,
        age=age,
        trained_on=policy.windows[-1].date,
        held=held,
        target=target,
        trades=trades,
        turnover=float(trades.drop(labels=[] if cash is None else [cash]).abs().sum()),
        turnover_limit=float("inf") if limit is None else float(np.ravel(limit)[0]),  # of the stage that is traded
        orders=orders,
        rebalancing=str(rebalancing),
        due=due,
        next_decision=following,
        assumed=holdings is None,
    )


def _four_digits(value: float) -> str:
    """A weight with its sign; what four digits do not show is none, such as dust that a solver leaves."""
    return f"{value:+.4f}" if abs(value) >= 0.5e-4 else "0"


def _fresh_spreads(
    config: StudyConfig, tickers: list[str], spreads: str | os.PathLike[str] | pd.DataFrame | None
) -> pd.DataFrame | None:
    """Bid–ask spreads as they are now; None for those that the study was run with."""
    known = config.costs.spreads
    if known is None and spreads is not None:
        raise DataError("the study's costs have no bid-ask spreads: leave out --spreads")
    if spreads is None and (known is None or not Path(known).is_file()):
        return None
    fresh = known if spreads is None else spreads
    return load_spreads(config, tickers, fresh)


def _fresh_tables(config: StudyConfig, given: Tables | None) -> Tables:
    """Where tables of features are read from now: what is given, or else what the study was configured with."""
    sections = config.features.items()
    fresh = {name: section.source for name, section in sections if section.source is not None}
    lacking = [
        name
        for name, section in sections
        if section.source is None and section.builtin is None and section.function is None and name not in (given or {})
    ]
    if lacking:
        raise DataError(
            f"features {', '.join(lacking)} were given in Python: give fresh ones, as --features {lacking[0]}=FILE"
        )
    return {**fresh, **(given or {})}


def _saved(model: str, strategy: str, root: Path, uri: str | None) -> tuple[Path, StudyConfig]:
    """Folder of a saved strategy, and its study as seen from where it lies."""
    if model.startswith("models:/"):
        folder = download_model(root, model, uri=uri) / "artifacts" / "strategy"
        config = StudyConfig.from_yaml((folder / "config.yaml").read_text(encoding="utf-8"))
        return folder, at_home(config, root.resolve())
    if uri is not None:
        raise TrackingError(f"{model} is a run, which lies in a folder: leave out --uri, or give models:/NAME/VERSION")
    run = RunFolder.open(model, root)
    saved = sorted(path.parent.name for path in run.path.glob("strategies/*/strategy"))
    for slug in (strategy, *(name for name in saved if name.startswith(f"{strategy}-seed"))):
        if slug in saved:
            folder, config = run.path / "strategies" / slug / "strategy", run.config()
            if config.data.members is not None:  # the strategy's own says what is asked of its assets alone
                own = StudyConfig.from_yaml((folder / "config.yaml").read_text(encoding="utf-8"))
                config = at_home(own, run.path.parent, run.recorded_name)
            return folder, config
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
