"""How docstrings of this project are read: roles become code, and `#:` above a name is its description."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")


class ProjectStyle(griffe.Extension):  # type: ignore[misc]
    """What the docstrings use beyond NumPy's sections."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(
                lambda role: f"`{role[1].removeprefix('portfolio_dfl.')}`", obj.docstring.value
            )

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        if attr.docstring is None and attr.lineno is not None:
            text = _comment_above(attr)
            if text:
                attr.docstring = griffe.Docstring(text, parent=attr)


def _comment_above(attribute: griffe.Attribute) -> str:
    """The block of lines that begin with ``#:`` right above an attribute; "" where there is none."""
    lines = attribute.lines_collection[attribute.filepath]
    first = attribute.lineno - 1
    while first > 0 and lines[first - 1].lstrip().startswith("#:"):
        first -= 1
    return " ".join(line.lstrip()[2:].strip() for line in lines[first : attribute.lineno - 1])
