"""How docstrings of this project are read: public names become links, and `#:` above a name is its description."""

from __future__ import annotations

import re
from typing import Any

import griffe

import dxpp_core
import portfolio_dfl

#: A name in a role, or one in capitals between single backticks.
_NAME = re.compile(r":[a-z]+:`~?([^`]+)`|(?<![`\w])`([A-Z]\w*[a-z]\w*)`(?!`)")


class ProjectStyle(griffe.Extension):
    """What the docstrings use beyond NumPy's sections."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _NAME.sub(lambda found: _linked(found[1] or found[2]), obj.docstring.value)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        if attr.docstring is None and attr.lineno is not None:
            text = _comment_above(attr)
            if text:
                attr.docstring = griffe.Docstring(text, parent=attr)


def _linked(name: str) -> str:
    """A link to a public name; the name as code where it is none."""
    short = name.rpartition(".")[2]
    for package in (portfolio_dfl, dxpp_core):
        if short in package.__all__:
            return f"[`{short}`][{package.__name__}.{short}]"
    return f"`{name}`"


def _comment_above(attribute: griffe.Attribute) -> str:
    """The block of lines that begin with ``#:`` right above an attribute; "" where there is none."""
    lines = attribute.lines_collection[attribute.filepath]
    first = attribute.lineno - 1
    while first > 0 and lines[first - 1].lstrip().startswith("#:"):
        first -= 1
    return " ".join(line.lstrip()[2:].strip() for line in lines[first : attribute.lineno - 1])
