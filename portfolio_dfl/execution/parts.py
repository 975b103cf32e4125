"""Parts by name: one of ours from its table, or a user's own as ``package.module:Name``.

An own part is a class, which is made with the options that the configuration gives it; a function that is the part
itself, and takes the options at each call; or an object that needs none.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from portfolio_dfl.errors import PortfolioError

__all__ = ["asking", "build_part", "find_part", "is_own", "own_name", "takes_option"]


def is_own(name: object) -> bool:
    """Whether a name is a user's own part, ``package.module:Name``, and none of ours."""
    if not isinstance(name, str) or name.count(":") != 1:
        return False
    module, attribute = name.split(":")
    return all(part.isidentifier() for part in (*module.split("."), attribute))


def own_name(name: str) -> str:
    """What an own part is called in tables: the name behind the module's."""
    return name.rpartition(":")[-1]


@contextmanager
def asking(kind: str, name: str, error: type[PortfolioError], where: str = "") -> Iterator[None]:
    """Ask a part of the user's own for something: whatever it raises becomes an error of ours that names it.

    Errors of ours, which it may raise itself, go on as they are. ``where`` says for what it was asked, as
    ``" in decide on 2024-01-02"``.

    Raises
    ------
    PortfolioError
        Of the type ``error``.
    """
    try:
        yield
    except PortfolioError:
        raise
    except Exception as problem:  # it is the user's, and may raise anything
        raise error(f"{kind} {name!r} raised {type(problem).__name__}{where}: {problem}") from problem


def find_part(
    kind: str,
    name: str,
    builtin: Mapping[str, Any],
    error: type[PortfolioError],
    *,
    missing: type[PortfolioError] | None = None,
) -> Any:
    """What a name stands for: an entry of a table of ours, or what a user's own module has under that name.

    Parameters
    ----------
    kind : str
        What is looked for ("predictor", "loss"), for messages.
    name : str
        A key of ``builtin``, or ``package.module:Name``, found on Python's path or in the working directory.
    builtin : mapping
        Ours by name.
    error : type of PortfolioError
        What is raised where there is no such part.
    missing : type of PortfolioError, optional
        What is raised where the module is not found, if something else.

    Raises
    ------
    PortfolioError
        Of the type ``error`` or ``missing``: the name is unknown, or cannot be imported.
    """
    if name in builtin:
        return builtin[name]
    if ":" not in name:
        ours = f"one of {', '.join(builtin)}, or " if builtin else ""
        raise error(f"unknown {kind} {name!r}; use {ours}'package.module:Name' for your own")
    if not is_own(name):
        raise error(f"{kind} {name!r} names no module and class; write 'package.module:Name'")
    module, _, attribute = name.partition(":")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # as `python -m` does; a console script does not
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as found:
        if found.name is None or not f"{module}.".startswith(f"{found.name}."):  # something that the module imports
            raise error(f"{kind} {name!r} cannot be imported: {found}") from found
        raise (missing or error)(
            f"{kind} {name!r} cannot be imported: there is no module {found.name} in {here} or on Python's path; "
            "set PYTHONPATH to the folder that it lies in"
        ) from found
    except PortfolioError:
        raise
    except Exception as found:  # the module is the user's, and may raise anything
        raise error(f"{kind} {name!r} cannot be imported: {found}") from found


def build_part(
    kind: str,
    name: str,
    found: Any,
    options: Mapping[str, Any],
    error: type[PortfolioError],
    *,
    takes: Sequence[str],
    method: str = "__call__",
) -> Any:
    """An own part that is ready to be called: a class made with its options, a function with them, or an object.

    Parameters
    ----------
    kind, name : str
        For messages, as in :func:`find_part`.
    found : object
        What :func:`find_part` answered with.
    options : mapping
        Keyword arguments, from the configuration.
    error : type of PortfolioError
        What is raised where something does not fit.
    takes : sequence of str
        What the part is called with, for signatures and messages, as in ``["outcome"]``.
    method : str
        Name of the method that is called; a function stands for an object with it alone.

    Raises
    ------
    PortfolioError
        Of the type ``error``: the options or the signature do not fit, which are named with what is needed.
    """
    called = ", ".join(takes)
    if inspect.isfunction(found) and _fits(found, takes, options):
        return partial(found, **options) if options else found
    if inspect.isfunction(found) and not _fits(found, (), options):
        given = f" and the options {', '.join(options)}" if options else ""
        raise error(f"{kind} {name!r} takes {inspect.signature(found)}; a function of ({called}){given} is needed")
    if inspect.isclass(found) or inspect.isfunction(found):
        part = _made(kind, name, found, options, error)
    elif not callable(getattr(found, method, None)):
        raise error(f"{kind} {name!r} is a {type(found).__name__}; a class or a function of ({called}) is needed")
    elif options:
        raise error(f"{kind} {name!r} is an object, which takes no options, and was given {', '.join(options)}")
    else:
        part = found
    call = getattr(part, method, None)
    if not callable(call):
        raise error(f"{kind} {name!r} makes a {type(part).__name__} without {_spelled(method)}({called})")
    if not _fits(call, takes, {}):
        raise error(
            f"{kind} {name!r}: {_spelled(method)} takes {inspect.signature(call)}; it is called with ({called})"
        )
    return part


def takes_option(factory: Any, name: str) -> bool:
    """Whether a factory has an argument of this name."""
    try:
        return name in inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return False


def _made(
    kind: str, name: str, factory: Callable[..., Any], options: Mapping[str, Any], error: type[PortfolioError]
) -> Any:
    if not _fits(factory, (), options):
        given = f"the options {', '.join(options)}" if options else "no options"
        raise error(f"{kind} {name!r} takes {inspect.signature(factory)}; it was given {given}")
    try:
        return factory(**options)
    except PortfolioError:
        raise
    except Exception as found:
        raise error(f"{kind} {name!r} cannot be made with options {dict(options)}: {found}") from found


def _fits(function: Callable[..., Any], arguments: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Whether a call with so many arguments and these options fits a signature; an unknown signature fits all."""
    try:
        inspect.signature(function).bind(*arguments, **options)
    except ValueError:  # as of what is compiled
        return True
    except TypeError:
        return False
    return True


def _spelled(method: str) -> str:
    return "a call" if method == "__call__" else method
