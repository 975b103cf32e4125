"""Decorators for compiled kernels, of this package and of those that use it: no GIL, code kept on disk if possible.

``compiled`` is for functions called from Python, ``inner`` and ``viewing`` for those that compiled functions call.
Under ``NUMBA_DISABLE_JIT=1`` all of them leave the function as it is: the same results, slowly.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import pickle
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import filelock
import numpy as np

from .errors import QPError

try:
    import numba
    from numba import njit, typeof
    from numba.core.caching import CompileResultCacheImpl, FunctionCache
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
except ValueError as error:  # of a setting
    raise QPError(f"Numba: {error}  Correct or unset the environment variable NUMBA_NUM_THREADS") from error

__all__ = ["ANNOUNCEMENT", "compiled", "inner", "viewing"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Types = tuple[Any, ...]

# Sums may be reordered (that is what lets them use vector registers); NaN and infinity keep their meaning.  References
# to arrays are not counted: the caller holds them all the while, and counting takes as long as the work of short loops.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz", "arcp"}, "_nrt": False}
#: What is said, once a process, on standard error where compiling takes longer than a moment.
ANNOUNCEMENT = "dxpp_core: compiling kernels for this machine, for the first time; it takes half a minute"
_MOMENT = 2.0
# Seconds that another process may take to compile: a kernel takes a minute, a busy machine several.
_PATIENCE = 600.0


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


class _NotStoredError(LookupError):
    """There is no code for these types, or none that this machine can use."""


# What a kernel says to arguments of types that it is not compiled for: Numba may not do that by itself.  The others are
# said to a thread that calls it in the moment in which another begins or ends to prepare it.
_UNPREPARED = (TypeError, RuntimeError, _NotStoredError)


class _Stored(FunctionCache):
    """The code in one folder, which is only read: Numba's own cache asks to write there as well."""

    def load_overload(self, sig: _Types, target_context: Any) -> Any:
        cache: Any = super()
        try:
            found = cache.load_overload(sig, target_context)
        # Whatever a broken, foreign or unreadable file leads to: its code cannot be used.
        except Exception as error:
            raise _NotStoredError from error
        if found is None:
            raise _NotStoredError
        return found

    def save_overload(self, sig: _Types, data: Any) -> None:
        """Nothing is written here."""


class _Store(FunctionCache):
    """The first folder that can be written, to put code in that is made anew, in place of what may be there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        cache: Any = super()
        cache.__init__(function)

    def load_overload(self, sig: _Types, target_context: Any) -> None:
        target_context.refresh()

    def save_overload(self, sig: _Types, data: Any) -> None:
        cache: Any = super()
        try:
            cache.save_overload(sig, data)
        except OSError:
            raise
        except Exception:  # an index that cannot be read, in any of pickle's ways
            cache.flush()
            cache.save_overload(sig, data)


def _reading(locator: Any) -> Any:
    """One of Numba's ways to a folder, for a folder that need not be writable."""

    class Reading(locator):  # type: ignore[misc]
        def ensure_cache_path(self) -> None:
            if not Path(self.get_cache_path()).is_dir():
                raise FileNotFoundError(self.get_cache_path())

    return Reading


def _folders(function: Callable[..., Any]) -> list[_Stored]:
    """Where code of this function may be stored: ``NUMBA_CACHE_DIR``, beside the module, the user's folder."""
    found = []
    for locator in CompileResultCacheImpl._locator_classes:
        ways = type("_Ways", (CompileResultCacheImpl,), {"_locator_classes": [_reading(locator)]})
        with suppress(RuntimeError, OSError):  # there is no such folder
            found.append(type("_Folder", (_Stored,), {"_impl_class": ways})(function))
    return found


class _Kernel:
    """A compiled function that always runs the code that is on disk, also where it had to be compiled first.

    Code just compiled rounds differently in the last bits from the same code once stored and loaded, and within one
    process the two cannot be told apart.  So a process of its own compiles and stores what is missing, and every
    process that computes loads it: all of them get the same numbers.  Only where that cannot be had does a process
    compile for itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        with suppress(OSError):  # sources that cannot be read cannot change either
            function = _named_after_sources(function)
        self.kernel = njit(function, nogil=True, **_OPTIONS)
        self._function = function
        self._ready = False
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        if self._ready:
            try:
                return self.kernel(*arguments)
            except _UNPREPARED:
                pass
        return self._call_carefully(tuple(_writable(argument) for argument in arguments))

    def _call_carefully(self, arguments: tuple[Any, ...]) -> Any:
        if self._ready:
            try:
                return self.kernel(*arguments)
            except _UNPREPARED:
                pass
        with self._lock:
            self._ready = False  # while a kernel is prepared, Numba would compile it for any caller
            self._prepare(arguments)
            self._ready = True
        return self.kernel(*arguments)

    def _prepare(self, arguments: tuple[Any, ...]) -> None:
        type_of: Callable[[Any], Any] = typeof
        types = tuple(type_of(argument) for argument in arguments)
        self.kernel.disable_compile(False)
        if not self._load(types):
            with _announced():
                trouble = self._compile_elsewhere(types)
                if not self._load(types):
                    _tell_once(trouble or "stored code cannot be read back")
                    self._compile_here(types)
        self.kernel.disable_compile()

    def _load(self, types: _Types) -> bool:
        """Take stored code for these types, wherever it lies; nothing is written."""
        for folder in _folders(self._function):
            self.kernel._cache = folder
            with suppress(_NotStoredError):
                self.kernel.compile(types)
                return True
        return False

    def _compile_elsewhere(self, types: _Types) -> str:
        """Have a process of its own compile and store code for these types; what was in the way, if anything."""
        try:
            folder = Path(_Store(self._function).cache_path)
        except (RuntimeError, OSError):  # Numba: "no locator available"
            return "there is no folder that can be written"
        if not sys.executable or getattr(sys, "frozen", False):
            return "there is no Python to start a compiling process with"
        # Several processes may meet the same new kernel at once: one compiles it, the others wait for that.
        lock = filelock.FileLock(folder / f"{self._function.__qualname__}.lock", timeout=_PATIENCE)
        # Without a lock (it belongs to another user, the file system has none) both compile, and store the same.
        with suppress(OSError, NotImplementedError):
            lock.acquire()
        try:
            return "" if lock.is_locked and self._load(types) else self._run_compiler(types)
        finally:
            with suppress(OSError):
                lock.release()

    def _run_compiler(self, types: _Types) -> str:
        command = [sys.executable, "-m", __name__, self._function.__module__, self._function.__name__]
        try:
            ended = subprocess.run(
                command, input=pickle.dumps(types), capture_output=True, check=False, timeout=_PATIENCE
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return f"the compiling process cannot run ({error})"
        if not ended.returncode:
            return ""
        last = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"the compiling process ended with code {ended.returncode} ({last})"

    def _compile_here(self, types: _Types) -> None:
        """Compile in memory; processes to come find the code stored if that can be done."""
        try:
            self.kernel._cache = _Store(self._function)
            self.kernel.compile(types)
        except (RuntimeError, OSError):
            # Where only storing it failed, the kernel has its code, and this asks for nothing more.
            self.kernel._cache = njit(self._function)._cache
            self.kernel.compile(types)

    def compile_and_store(self, types: _Types) -> None:
        """Compile for these types and store the code; errors of the compiler and of the disk go on."""
        self.kernel._cache = _Store(self._function)
        self.kernel.compile(types)


_told = threading.Event()
_announcing = threading.Event()


def _announce() -> None:
    if not _announcing.is_set():
        _announcing.set()
        print(ANNOUNCEMENT, file=sys.stderr, flush=True)


@contextmanager
def _announced() -> Iterator[None]:
    """Say what is going on if it takes longer than a moment."""
    timer = threading.Timer(_MOMENT, _announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell_once(trouble: str) -> None:
    if not _told.is_set():
        _told.set()
        logging.getLogger(__name__).warning(
            "compiled code is not stored: %s; compiling in memory, which takes up to a minute in every process "
            "(NUMBA_CACHE_DIR names another folder)",
            trouble,
        )


def compiled(function: _Function) -> _Function:
    """Compile a function that is called from Python; reuse code compiled by an earlier process.

    Numba keeps its code beside the module, else in the user's cache folder (or in ``NUMBA_CACHE_DIR``).  Code that
    another user has stored in one of these is used where it can be read.  Where none can be written, or code cannot be
    stored for another reason, each process compiles in memory, and a warning is logged once.
    """
    settings: Any = numba.config
    if settings.DISABLE_JIT:
        return function
    kernel: Any = _Kernel(function)
    checked: _Function = kernel
    return checked


class _Part(JITCodeLibrary):
    """Code that becomes part of other code, optimised once, where all parts are together, and not executable alone.

    Numba optimises every function with all that it calls, again at each level, and makes machine code of it: twice the
    time to compile, and code that is half as fast.
    """

    def get_pointer_to_function(self, name: str) -> int:
        """No address, as Numba has it of any function without a wrapper for Python."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> _Part:
        """Asked for by Numba to set the environment of what can be executed."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing to be set."""

    def _optimize_final_module(self) -> None:
        """Left to the whole."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class _PartCompiler(Compiler):
    """Numba's compiler, for parts."""

    def __init__(self, typing: Any, target: Any, library: Any, *others: Any) -> None:
        part: Any = _Part
        made: Any = super().__init__
        made(typing, target, library or part(target.codegen(), "part"), *others)


def _part(function: _Function, **options: Any) -> _Function:
    options = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options}
    compile_part: Any = njit(pipeline_class=_PartCompiler, **options)
    checked: _Function = compile_part(function)
    return checked


def inner(function: _Function) -> _Function:
    """Compile a function that only compiled functions call: it becomes part of them and cannot be called from Python.

    (Under ``NUMBA_DISABLE_JIT=1`` it can.)  It neither makes nor returns arrays: see `viewing`.
    """
    return _part(function)


def viewing(function: _Function) -> _Function:
    """`inner`, for a function that returns views of arrays that it was given, or makes arrays for its own use."""
    return _part(function, _nrt=True)


if __name__ == "__main__":
    getattr(importlib.import_module(sys.argv[1]), sys.argv[2]).compile_and_store(pickle.load(sys.stdin.buffer))
