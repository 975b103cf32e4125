"""The layers beside PyTorch's tracers: between two compiled graphs they run as they are; they are part of no graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch.compiler import is_dynamo_compiling, is_exporting

__all__ = ["outside_graphs"]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def outside_graphs(
    name: str, refusal: type[Exception] | None = None
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Have ``torch.compile`` break its graph at a function, and compile nothing of it or of what it calls.

    ``torch.compiler.disable`` at import would do the same for seconds then and a microsecond a call later.

    Parameters
    ----------
    name : str
        Of the function, for messages.
    refusal : exception, optional
        Raised where ``torch.export`` or ``torch.jit.trace`` reach the function: their graphs would hold the result of
        one call for ever. None: they cannot reach it.
    """

    def decorate(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        apart: list[Callable[..., Any]] = []

        def prepare() -> bool:
            if refusal is not None and is_exporting():
                raise refusal(_refused(name, "torch.export"))
            if not apart:
                apart.append(torch.compiler.disable(function, reason=f"{name} {_REASON}"))
            return True

        # Dynamo calls it while it traces, for a constant (`torch._dynamo.assume_constant_result` without its import).
        prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]

        @functools.wraps(function)
        def entry(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            if is_dynamo_compiling() and prepare():
                result: _Result = apart[0](*args, **kwargs)
                return result
            if refusal is not None:
                if is_exporting():
                    raise refusal(_refused(name, "torch.export"))
                if _is_jit_tracing():
                    raise refusal(_refused(name, "torch.jit.trace"))
            return function(*args, **kwargs)

        return entry

    return decorate


# What `torch.jit.is_tracing` asks, without its questions before, at every call.
_is_jit_tracing: Callable[[], bool] = getattr(torch._C, "_is_tracing", lambda: False)
_REASON = "runs a solver on numbers, which a graph does not have"


def _refused(name: str, tracer: str) -> str:
    return (
        f"{name} cannot be part of a graph of {tracer}: it {_REASON}; "
        "export the model up to its arguments and call it on the results (torch.compile works: it leaves it out)"
    )
