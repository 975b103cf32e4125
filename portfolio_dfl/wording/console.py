"""What a terminal or a pipe makes of text: letters that it does not have degrade, and nothing is lost to them."""

from __future__ import annotations

import codecs
import io
import sys

__all__ = ["can_show", "degrade", "spelled"]

_HANDLER = "portfolio-dfl"
# Signs of ours that have a plain spelling; letters of users are escaped.
_PLAIN = {
    "─": "-",
    "−": "-",
    "–": "-",
    "—": "-",
    "…": "...",
    "·": "|",
    "∞": "inf",
    "λ": "lambda",
    "τ": "tau",
    "×": "x",
    "‖": "||",
    "’": "'",
    "“": '"',
    "”": '"',
}


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return spelled(error.object[error.start : error.end]), error.end


def spelled(text: str) -> str:
    """A text in ASCII."""
    return "".join(letter if letter.isascii() else _PLAIN.get(letter) or _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    return letter.encode("ascii", "backslashreplace").decode("ascii")


def degrade() -> None:
    """Let standard output and standard error write any text, whatever their encoding is."""
    codecs.register_error(_HANDLER, _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def can_show(text: str) -> bool:
    """Whether standard output has all letters of a text."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return codecs.lookup(encoding).name == "utf-8" or text.isascii()
