"""The errors of the layer: one base, one class a cause, and in each message what is wrong, where, and what to do."""

from __future__ import annotations

__all__ = [
    "DoubleBackwardError",
    "IllConditionedError",
    "InfeasibleError",
    "NonConvexError",
    "NonFiniteError",
    "NotDifferentiableError",
    "ProblemError",
    "QPError",
    "ShapeError",
    "SolverAccuracyError",
    "SolverError",
    "SolverLimitError",
    "SolverNotFoundError",
    "TracingError",
    "UnboundedError",
]


class QPError(Exception):
    """Base of every error raised by ``dxpp_core``.

    Attributes
    ----------
    batch_element : tuple of int, or None
        Index of the problem in the batch that caused the error; None when the error concerns all of them.
    """

    def __init__(self, message: str, *, batch_element: tuple[int, ...] | None = None) -> None:
        if batch_element:
            where = batch_element[0] if len(batch_element) == 1 else batch_element
            message = f"batch element {where}: {message}"
        super().__init__(message)
        self.batch_element = batch_element or None


class ProblemError(QPError, ValueError):
    """The arguments do not describe a convex quadratic program."""


class ShapeError(ProblemError):
    """Shapes, dtypes, devices or layouts of the arguments do not fit together."""


class NonFiniteError(ProblemError):
    """An argument holds NaN, or an infinity where none has a meaning."""


class NonConvexError(ProblemError):
    """``P`` has a negative eigenvalue beyond rounding."""


class InfeasibleError(QPError):
    """No point satisfies all constraints."""


class UnboundedError(QPError):
    """The objective falls without limit over the feasible set."""


class SolverError(QPError):
    """The solver stopped without a solution."""


class SolverAccuracyError(SolverError):
    """The solver returned a point whose certificate misses the tolerance; the message says by how much."""


class IllConditionedError(SolverAccuracyError):
    """Double precision does not tell whether the program has a solution: none was found, and none is ruled out."""


class SolverLimitError(SolverError):
    """The solver's licence does not allow a problem of this size."""


class SolverNotFoundError(QPError, LookupError):
    """No solver of that name is registered or installed."""


class NotDifferentiableError(QPError):
    """The solution map has no derivative at this point, and ``strict=True`` asked to be told."""


class DoubleBackwardError(QPError, RuntimeError):
    """Second derivatives of the solution map are zero or undefined and are not provided."""


class TracingError(QPError, RuntimeError):
    """A graph was asked for of what runs a solver on numbers."""
