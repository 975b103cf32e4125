"""What a clean price panel is, and the one function that makes one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from portfolio_dfl.data.cleaning import clean_prices
from portfolio_dfl.data.flags import PanelReport
from portfolio_dfl.data.layouts import naming_file
from portfolio_dfl.data.policies import Policies
from portfolio_dfl.data.tidy import Day, tidy_prices
from portfolio_dfl.errors import DataError
from portfolio_dfl.wording import counted

__all__ = ["PricePanel", "build_panel", "content_hash"]


def content_hash(prices: pd.DataFrame) -> str:
    """SHA-256 of dates, tickers and prices: equal for equal content, however it is stored.

    Parameters
    ----------
    prices
        [T, N] float64 by date; NaN allowed.
    """
    values = np.ascontiguousarray(prices.to_numpy(np.float64), dtype="<f8")
    # There are many NaNs and two zeros; content knows one of each.
    values = np.where(np.isnan(values), np.float64("nan"), values) + 0.0
    days = pd.DatetimeIndex(prices.index).to_numpy().astype("datetime64[D]").astype("<i8")
    digest = hashlib.sha256("\x1f".join(str(column) for column in prices.columns).encode())
    digest.update(days.tobytes())
    digest.update(values.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class PricePanel:
    """Clean adjusted closes.

    Made by :func:`build_panel`; the constructor refuses what is not clean.

    Attributes
    ----------
    prices
        [T, N] float64, positive, finite; tz-naive, normalised, strictly increasing, unique DatetimeIndex; one
        column a ticker.
    report
        What was found and done on the way.

    Raises
    ------
    DataError
        Prices that are not clean.
    """

    prices: pd.DataFrame
    report: PanelReport = field(default_factory=PanelReport)

    def __post_init__(self) -> None:
        index = self.prices.index
        if not isinstance(index, pd.DatetimeIndex) or index.tz is not None:
            raise DataError("a panel needs a tz-naive DatetimeIndex: make it with build_panel")
        if not (index.is_monotonic_increasing and index.is_unique and (index == index.normalize()).all()):
            raise DataError("the dates of a panel increase strictly, at midnight: make it with build_panel")
        if not self.prices.columns.is_unique or self.prices.shape[1] == 0:
            raise DataError("a panel needs tickers, each once: make it with build_panel")
        if any(dtype != np.float64 for dtype in self.prices.dtypes):
            raise DataError("the prices of a panel are float64: make it with build_panel")
        self._require_prices()

    def _require_prices(self) -> None:
        values = self.prices.to_numpy()
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise DataError("the prices of a panel are finite and positive: make it with build_panel")

    @property
    def tickers(self) -> tuple[str, ...]:
        """Column names."""
        return tuple(str(column) for column in self.prices.columns)

    @cached_property
    def returns(self) -> pd.DataFrame:
        """Simple returns, [T-1, N]; row t is close t-1 to close t, so the first date has none."""
        return self.prices.pct_change(fill_method=None).iloc[1:]

    @property
    def earned(self) -> pd.DataFrame:
        """Returns as weights earn them, without gaps: :attr:`returns`, which have none here."""
        return self.returns

    @cached_property
    def sha256(self) -> str:
        """Hash of dates, tickers and prices."""
        return content_hash(self.prices)

    def __str__(self) -> str:
        first, last = self.prices.index[0], self.prices.index[-1]
        return (
            f"{counted(len(self.tickers), 'ticker')}, {counted(len(self.prices), 'date')}, "
            f"{first:%Y-%m-%d} to {last:%Y-%m-%d}, sha256 {self.sha256[:12]}"
        )


def build_panel(
    raw: pd.DataFrame,
    *,
    tickers: Sequence[str] | None = None,
    start: Day | None = None,
    end: Day | None = None,
    calendar: str | None = "XNYS",
    policies: Policies | Mapping[str, object] | None = None,
) -> PricePanel:
    """Make a clean panel, or say in one message what is wrong and which policies would deal with it.

    Parameters
    ----------
    raw
        Prices as a source found them: any layout known to :func:`~portfolio_dfl.data.layouts.wide_prices`.
    tickers
        Columns to use, in this order; all by default.
    start, end
        First and last date, both included. A range that the prices do not fill is a late start or an early
        end of every ticker concerned, not a shorter panel.
    calendar
        Exchange calendar that says which sessions exist; None takes the dates found as all there are.
    policies
        What to do about each kind of defect, as :class:`Policies` or as a mapping of its fields; the default
        refuses every one.

    Returns
    -------
    PricePanel
        Its ``report`` lists all findings, and the cells that each policy touched.

    Raises
    ------
    DataError
        Defects that no policy deals with, conflicting rows of one date, unknown tickers, an empty range.

    Examples
    --------
    >>> import pandas as pd
    >>> from portfolio_dfl import build_panel
    >>> days = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04"])
    >>> prices = pd.DataFrame({"A": [10.0, None, 11.0], "B": [20.0, 20.2, 20.4]}, index=days)
    >>> build_panel(prices, policies={"gaps": "forward_fill:1"}).returns.round(3)
                  A     B
    Date
    2024-01-03  0.0  0.01
    2024-01-04  0.1  0.01
    """
    chosen = Policies.of(policies)
    tidy = tidy_prices(raw, tickers=tickers, start=start, end=end, calendar=calendar)
    cleaned = clean_prices(tidy, chosen, calendar)
    with naming_file(raw):
        if cleaned.failures:
            raise DataError(cleaned.refusal())
        if len(cleaned.prices) < 2:
            raise DataError("one date of prices is left, returns need two: widen start and end")
    return PricePanel(cleaned.prices, cleaned.report)
