"""What predictors see beside returns: the section of a study's configuration that names features."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from portfolio_dfl.config.section import Free, Name, Section, Text

__all__ = ["FeatureConfig", "FeatureName"]

#: Names become parts of dotted keys and of files.
FeatureName = Annotated[Name, Field(min_length=1, pattern=r"^\w[\w-]*$")]

_OF_TABLES = ("kind", "columns", "lag", "known_at", "max_age")


class FeatureConfig(Section):
    """One table of values, one built-in feature, or a function of the user's own."""

    source: Text | None = Field(
        default=None,
        min_length=1,
        description="CSV or Parquet file; null: a built-in one, a function, or a frame given in Python",
    )
    builtin: Text | None = Field(
        default=None,
        description="momentum | reversal | volatility | drawdown | beta | distance_from_high | day_of_month, made from "
        "the prices",
    )
    function: Text | None = Field(
        default=None, description="package.module:Name, called with returns up to the decision, gives a frame"
    )
    options: dict[str, Free] = Field(
        default_factory=dict, description="of a built-in one (windows, skip, market) or of the function"
    )
    kind: Literal["dated", "by_asset"] | None = Field(
        default=None, description="by date, or by date and ticker; null: read off the table's layout"
    )
    columns: list[Text] | None = Field(default=None, min_length=1, description="columns to use; null: all")
    lag: int | None = Field(
        default=None, ge=0, description="sessions from the close of a value's date to the close that knew it; 0: none"
    )
    known_at: Text | None = Field(default=None, description="column with the dates on which values became known")
    max_age: int | None = Field(default=None, ge=0, description="sessions a value is used for; null: until the next")
    missing: Literal["fail", "mean", "zero"] = Field(
        default="fail", description="where no value is known: fail | mean, of the training window | zero"
    )
    reach: int = Field(default=1, ge=1, description="returns that one value of the function needs")

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        named = [key for key in ("source", "builtin", "function") if getattr(self, key) is not None]
        if len(named) > 1:
            raise ValueError(f"{' and '.join(named)} are given: a feature comes from one of them")
        if not named or named == ["source"]:
            if self.lag is None and self.known_at is None:
                raise ValueError(
                    "say when its values were known: lag: 0 (at the close of their date), lag: 1 (a session later), "
                    "or known_at: COLUMN"
                )
            if self.options:
                raise ValueError("options are of built-in features and functions; a table has none")
        else:
            foreign = [key for key in _OF_TABLES if getattr(self, key) is not None]
            if foreign:
                raise ValueError(f"{', '.join(foreign)} are of tables; {named[0]} sees returns up to the decision")
        if self.reach > 1 and self.function is None:
            raise ValueError("reach is of functions: built-in features know theirs")
        return self
