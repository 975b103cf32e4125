"""What every section of a configuration is: strict, frozen, explained in words; and the types that its values have."""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic._internal._model_construction import ModelMetaclass

from portfolio_dfl.errors import ConfigError
from portfolio_dfl.wording.findings import explain_findings

__all__ = ["Choice", "Folder", "Free", "Name", "Section", "Text", "Ticker"]

# Control characters, lone halves of characters, and what ends a line.
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")
# A file's name has 255 bytes, and a run's or an artifact's more in it than the text that the user chose.
_NAME_BYTES = 200


def _printable(value: Any) -> Any:
    """Refuse what no file, page or database can be trusted to keep."""
    for letter in str(value):
        if unicodedata.category(letter) in _UNPRINTABLE:
            raise ValueError(f"text without control characters and line ends is needed, not {str(value)!r}")
    return value


def _short(value: str) -> str:
    """Refuse what is too long to be part of a file's name."""
    if len(value.encode(errors="replace")) > _NAME_BYTES:
        raise ValueError(f"a name of at most {_NAME_BYTES} bytes is needed, not {len(value.encode())}")
    return value


Text = Annotated[str, AfterValidator(_printable)]
#: What becomes part of the names of files.
Name = Annotated[Text, AfterValidator(_short)]
Folder = Annotated[Path, AfterValidator(_printable)]
Ticker = Annotated[Text, Field(min_length=1)]


def _finite(value: Any) -> Any:
    """Refuse NaN and infinity also where any value may stand, which pydantic does not look into."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a finite number is needed, not {value}")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        try:
            _finite(part)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return value


Free = Annotated[Any, AfterValidator(_finite)]


def _writable(value: Any) -> Any:
    """Dates as texts: a search is kept in a form that has none."""
    return value.isoformat() if isinstance(value, dt.date) else value


Choice = Annotated[Free, AfterValidator(_writable)]


class _Explained(ModelMetaclass):
    """Classes whose objects, made in Python, are refused in the words that a file with the same mistake is."""

    def __call__(self, *args: Any, **values: Any) -> Any:
        try:
            return super().__call__(*args, **values)
        except ValidationError as error:
            assert issubclass(self, Section)
            raise ConfigError(f"{self.__name__}: {self.explained(error, values)}") from error


class Section(BaseModel, metaclass=_Explained):
    """Base of all sections: unknown keys are refused, values stay as they were given."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @classmethod
    def explained(cls, error: ValidationError, values: Mapping[str, Any]) -> str:
        """What is wrong with values of this section, all of it at once, each with its key."""
        found = error.errors()
        unknown = [detail for detail in found if detail["type"] == "extra_forbidden"]
        clauses = [cls._unknown([str(part) for part in detail["loc"]]) for detail in unknown]
        rest = [detail for detail in found if detail not in unknown]
        return "; ".join([*clauses, *explain_findings(rest, values, cls._nullable())])

    @classmethod
    def _unknown(cls, where: list[str]) -> str:
        names = list(cls.model_fields)
        nearest = get_close_matches(where[-1], names, n=1)
        advice = f"the nearest is {nearest[0]}" if nearest else f"valid ones: {', '.join(names)}"
        return f"unknown key {'.'.join(where)}; {advice}"

    @classmethod
    def _nullable(cls) -> set[str]:
        return {name for name, field in cls.model_fields.items() if type(None) in get_args(field.annotation)}
