"""A policy of the user's own in the backtest: what it lacks is filled in, what it answers is looked at."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from portfolio_dfl.errors import BacktestError
from portfolio_dfl.execution.parts import asking

__all__ = ["OwnPolicy"]


class OwnPolicy:
    """A user's policy under the name that a study gives it; fits the `Policy` protocol.

    Of a policy ``decide(history, held)`` is needed; ``fit(history)`` is optional. A function of (history, held) is a
    policy without memory. Weights may be an array [N] in the order of the returns' columns, or a Series by ticker.
    Errors of ours keep their meaning; any other names the strategy and the date.

    Parameters
    ----------
    policy : object or callable
    name : str
        Of the strategy, in tables.

    Raises
    ------
    BacktestError
        If it has no ``decide``, or a method does not take what it is called with.
    """

    def __init__(self, policy: Any, name: str) -> None:
        self.name = name
        decide = getattr(policy, "decide", policy if callable(policy) else None)
        if inspect.isclass(policy) or not callable(decide):
            kind = f"the class {policy.__name__}" if inspect.isclass(policy) else f"a {type(policy).__name__}"
            raise BacktestError(
                f"strategy {name!r} is {kind}; an object with decide(history, held), or a function of (history, held) "
                "is needed"
            )
        self._decide: Callable[..., Any] = decide
        self._fit: Callable[..., Any] | None = getattr(policy, "fit", None)
        _require_signature(name, "decide", self._decide, ("history", "held"))
        if self._fit is not None:
            _require_signature(name, "fit", self._fit, ("history",))

    def fit(self, history: pd.DataFrame) -> None:
        """Learn from returns [T, N], if the policy does."""
        if self._fit is not None:
            self._asked("fit", self._fit, history)

    def decide(self, history: pd.DataFrame, held: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Target weights [N], or None for no order."""
        answer = self._asked("decide", self._decide, history, held)
        if answer is None:
            return None
        where = f"strategy {self.name!r} decided on {history.index[-1].date()}"
        if isinstance(answer, pd.Series):
            answer = self._aligned(answer, history.columns, where)
        try:
            weights: NDArray[np.float64] = np.array(answer, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise BacktestError(f"{where} with {answer!r}: return one weight an asset, or None to hold") from error
        return weights

    def _asked(self, method: str, call: Callable[..., Any], history: pd.DataFrame, *rest: Any) -> Any:
        with asking("strategy", self.name, BacktestError, f" in {method} on {history.index[-1].date()}"):
            return call(history, *rest)

    def _aligned(self, answer: pd.Series[Any], columns: pd.Index[Any], where: str) -> pd.Series[Any]:
        if not answer.index.is_unique or set(answer.index) != set(columns):
            odd = sorted({str(ticker) for ticker in set(answer.index) ^ set(columns)})
            reason = f"{', '.join(odd)} do not match" if odd else "a ticker is there twice"
            raise BacktestError(f"{where} with a Series whose index is not the tickers: {reason}")
        return answer.reindex(columns)


def _require_signature(name: str, method: str, call: Callable[..., Any], takes: tuple[str, ...]) -> None:
    try:
        inspect.signature(call).bind(*takes)
    except ValueError:  # as of what is compiled
        return
    except TypeError as error:
        raise BacktestError(
            f"strategy {name!r}: {method} takes {inspect.signature(call)}; it is called with ({', '.join(takes)})"
        ) from error
