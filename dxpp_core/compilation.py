"""Decorators for compiled kernels: no GIL, compiled code kept on disk where that is possible."""

from __future__ import annotations

import importlib
import inspect
import logging
import pickle
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from filelock import FileLock
from numba import njit, typeof

__all__ = ["compiled", "inner"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Sums may be reordered (that is what lets them use vector registers); NaN and infinity keep their meaning.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
_NO_DOOR: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _named_after_sources(function: _Function) -> _Function:
    """The function under a name that holds a number for the sources in its folder.

    Numba's cache notices edits of the file that holds a kernel, not of the files whose functions it uses.  It keeps
    code under the name of its kernel, so that code compiled from other sources is left.  (As the default of an argument
    the number would do as well, but Numba takes the omitted arguments of all kernels of a process for the same.)
    """
    folder = Path(inspect.getfile(function)).parent
    number = zlib.crc32(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py"))))
    function.__qualname__ = f"{function.__name__}_{number:08x}"
    return function


def _writable(argument: Any) -> Any:
    """A read-only array (a memory map, or one that came from another process) copied: to Numba it is another type."""
    if isinstance(argument, np.ndarray) and not argument.flags.writeable:
        return argument.copy()
    return argument


class _StoredKernel:
    """A compiled function that always runs the code that is on disk, also where it had to be compiled first.

    Code just compiled rounds differently in the last bits from the same code once stored and loaded, and within one
    process the two cannot be told apart.  So a process of its own compiles and stores what is missing, and every
    process that computes loads it: all of them get the same numbers.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.kernel = njit(_named_after_sources(function), nogil=True, cache=True, **_OPTIONS)
        self._function = function
        self._ready = False
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        if self._ready:
            try:
                return self.kernel(*arguments)
            except TypeError:  # arguments of other types, which Numba may not compile for by itself
                pass
        return self._call_carefully(tuple(_writable(argument) for argument in arguments))

    def _call_carefully(self, arguments: tuple[Any, ...]) -> Any:
        if self._ready:
            try:
                return self.kernel(*arguments)
            except TypeError:
                pass
        with self._lock:
            self._prepare(arguments)
            self._ready = True
        return self.kernel(*arguments)

    def _prepare(self, arguments: tuple[Any, ...]) -> None:
        type_of: Callable[[Any], Any] = typeof
        types = [type_of(argument) for argument in arguments]
        content = pickle.dumps(tuple(types))
        name = f"{self._function.__qualname__}-{zlib.crc32(content):08x}-{numba.__version__}.stored"
        stored = Path(self.kernel.stats.cache_path) / name
        # Several processes may meet the same new kernel at once: one compiles it, the others wait for that.
        with FileLock(stored.with_suffix(".lock")):
            if not stored.exists():
                command = [sys.executable, "-m", __name__, self._function.__module__, self._function.__name__]
                # Where the helper cannot run, this process compiles for itself, as Numba would.
                if subprocess.run(command, input=content, check=False).returncode == 0:
                    stored.touch()
        if self._ready:
            self.kernel.disable_compile(False)
        self.kernel.compile(tuple(types))
        self.kernel.disable_compile()


def compiled(function: _Function) -> _Function:
    """Compile a function that is called from Python; reuse code compiled by an earlier process.

    Numba keeps its code beside the module, else in the user's cache folder (or in ``NUMBA_CACHE_DIR``). Where
    neither can be written, the function is compiled anew by each process.
    """
    kernel: Any
    try:
        kernel = _StoredKernel(function)
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


def _compile_and_store(module: str, function: str, content: bytes) -> None:
    """Compile one function of one module for pickled argument types; Numba stores the code."""
    kernel = getattr(importlib.import_module(module), function)
    kernel.kernel.compile(pickle.loads(content))


if __name__ == "__main__":
    _compile_and_store(sys.argv[1], sys.argv[2], sys.stdin.buffer.read())
