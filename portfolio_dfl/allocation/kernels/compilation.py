"""Decorators for compiled kernels: no GIL, compiled code kept on disk where that is possible."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

__all__ = ["SOURCES", "compiled", "inner"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Numba's cache notices edits of the file that holds a kernel, not of the files whose functions it uses. As the default
# of a kernel's last argument, this number is part of its signature, so that code compiled from other sources is left.
SOURCES = zlib.crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))

# Sums may be reordered (that is what lets them use vector registers); NaN and infinity keep their meaning.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
_NO_DOOR: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: _Function) -> _Function:
    """Compile a function that is called from Python; reuse code compiled by an earlier process.

    Numba keeps its code beside the module, else in the user's cache folder (or in ``NUMBA_CACHE_DIR``). Where
    neither can be written, the function is compiled anew by each process.
    """
    kernel: Any
    try:
        kernel = njit(function, nogil=True, cache=True, **_OPTIONS)
    except RuntimeError:  # numba: "no locator available", i.e. no folder for the cache is writable
        logging.getLogger(__name__).info("no writable folder for compiled code: compiling in memory")
        kernel = njit(function, nogil=True, **_OPTIONS)
    checked: _Function = kernel
    return checked


def inner(function: _Function) -> _Function:
    """Compile a function that only compiled functions call: it becomes part of them, and needs no door to Python."""
    kernel: Any = njit(function, **_OPTIONS, **_NO_DOOR)
    checked: _Function = kernel
    return checked
