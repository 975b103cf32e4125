"""How results that print as text show themselves in a notebook."""

from __future__ import annotations

from html import escape

__all__ = ["PrintedResult"]


class PrintedResult:
    """Base of results whose text says it all: a notebook shows what the command line prints."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
