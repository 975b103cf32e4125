"""How often a study decides, as its configuration says it."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from portfolio_dfl.data.frequency import parse_rule

__all__ = ["RebalanceValue"]


def _value(given: Any) -> Any:
    rule = parse_rule(given)
    return list(rule) if isinstance(rule, tuple) else rule


#: ``daily``, ``weekly``, ``monthly``, ``quarterly``, every so many sessions, or dates in order.
RebalanceValue: TypeAlias = Annotated[str | int | list[dt.date], BeforeValidator(_value)]
