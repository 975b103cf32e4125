"""A metric of the user's own, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from portfolio_dfl.backtest.ledger import Ledger
from portfolio_dfl.errors import BacktestError
from portfolio_dfl.execution.parts import asking, build_part, find_part, own_name

__all__ = ["OwnMetric"]


@dataclass(frozen=True)
class OwnMetric:
    """A metric ``package.module:name``: a function of a `Ledger` that gives one number, or a class made with options.

    NaN stands for a number that does not exist, as for ours.

    Parameters
    ----------
    name : str
    options : mapping

    Raises
    ------
    BacktestError
        If it cannot be imported, or the options or the signature do not fit.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    call: Callable[[Ledger], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = find_part("metric", self.name, {}, BacktestError)
        made = build_part("metric", self.name, found, self.options, BacktestError, takes=["ledger"])
        object.__setattr__(self, "call", made)

    @property
    def column(self) -> str:
        """Its name in tables: that behind the module's."""
        return own_name(self.name)

    def __call__(self, ledger: Ledger) -> float:
        """The number for one ledger.

        Raises
        ------
        BacktestError
            If it fails, or gives something else.
        """
        with asking("metric", self.name, BacktestError, f" for the ledger of {ledger.name or 'a strategy'}"):
            answer = self.call(ledger)
        try:
            return float(answer)
        except (TypeError, ValueError) as error:
            raise BacktestError(f"metric {self.name!r} gave {answer!r}; one number is needed") from error
