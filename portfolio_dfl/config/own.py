"""Parts of the user's own in lists: a name ``package.module:Name``, or a name with options."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator

from portfolio_dfl.config.names import part_name
from portfolio_dfl.config.section import Free, Section

__all__ = ["OwnPart", "OwnPartConfig"]


class OwnPartConfig(Section):
    """One part of the user's own."""

    name: Annotated[str, PlainValidator(part_name())] = Field(description="package.module:Name")
    options: dict[str, Free] = Field(default_factory=dict, description="its arguments")


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


#: ``package.module:Name`` alone, or ``{name: package.module:Name, options: {..}}``.
OwnPart = Annotated[OwnPartConfig, BeforeValidator(_named)]
