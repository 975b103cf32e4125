"""One decorator for compiled kernels: no GIL, compiled code kept on disk where that is possible."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

__all__ = ["compiled"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Sums may be reordered (that is what lets them use vector registers); NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def compiled(function: _Function) -> _Function:
    """Compile at the first call; reuse code compiled by an earlier process.

    Numba keeps its code beside the module, else in the user's cache folder (or in ``NUMBA_CACHE_DIR``). Where
    neither can be written, the function is compiled anew by each process.
    """
    try:
        kernel = njit(function, nogil=True, cache=True, error_model="numpy", fastmath=_FAST)
    except RuntimeError:  # numba: "no locator available", i.e. no folder for the cache is writable
        logging.getLogger(__name__).info("no writable folder for compiled code: compiling in memory")
        kernel = njit(function, nogil=True, error_model="numpy", fastmath=_FAST)
    return kernel  # type: ignore[no-any-return]
