"""The validated problem data of a batch: shapes, finiteness, broadcasting, and the scaled program of each element."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ..errors import InfeasibleError, NonConvexError, NonFiniteError, ProblemError, ShapeError
from ..matrices import DenseSystem, System
from ..matrices.compact import CompactMatrices
from ..matrices.dense import SMALL_VARIABLES
from ..matrices.pattern import SparsePattern
from ..matrices.sparse import SparseStructure
from .layout import Layout
from .recognition import small_system, structure_of, structure_of_arguments
from .units import ScaledVectors, scale

__all__ = ["NAMES", "Element", "QuadraticProgram"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

NAMES = ("P", "q", "G", "h", "A", "b", "lb", "ub")
_CORE_RANK = {"P": 2, "q": 1, "G": 2, "h": 1, "A": 2, "b": 1, "lb": 1, "ub": 1}
_MATRICES = ("P", "G", "A")

# Below this many variables everything is dense, whatever the layout of the arguments.
_ALWAYS_DENSE = 48
# Dense arguments of larger problems are treated as sparse when at most this share of their entries is not zero.
_SPARSE_SHARE = 0.2
_DOUBLE_ROUNDING = 1e-9


@dataclass(slots=True)
class Element:
    """One problem of the batch in equilibrated form; ``limited`` are the rows of G with a finite h (None: all)."""

    system: System
    vectors: ScaledVectors
    limited: Mask | None

    def numbers_of_limited(self, m: int) -> NDArray[np.intp]:
        """Which of the m rows of G are limited."""
        return np.arange(m) if self.limited is None else np.flatnonzero(self.limited)


def _surely_finite(array: Array) -> bool:
    """Whether no entry is NaN or infinite, by one product; False also where it overflows: then look closely."""
    values = array.ravel()
    return math.isfinite(values.dot(values))


class QuadraticProgram:
    """A batch of problems min ½xᵀPx + qᵀx s.t. Gx ≤ h, Ax = b, lb ≤ x ≤ ub.

    Parameters
    ----------
    arrays : dict
        float64 arrays by name, absent ones None.  Vectors [*batch, k]; dense matrices [*batch, r, n]; sparse matrices
        by the values [*batch, nnz] of their pattern.
    patterns : dict
        ``SparsePattern`` of each sparse matrix.
    precision : float
        Relative rounding with which P is known, if it came in lower precision than float64.
    limits_precision : float
        The same of the rows and what limits them.

    Raises
    ------
    ShapeError, NonFiniteError, InfeasibleError
    """

    def __init__(
        self,
        arrays: dict[str, Array | None],
        patterns: dict[str, SparsePattern],
        precision: float = 0.0,
        limits_precision: float = 0.0,
    ) -> None:
        self.arrays, self.patterns = arrays, patterns
        self.precision, self.limits_precision = precision, limits_precision
        given = [(name, array) for name, array in arrays.items() if array is not None]
        self.n, self.m, self.p = self._check_shapes({name: self._core(name, array) for name, array in given})
        batches = {name: self._batch_of(name, array) for name, array in given}
        self.batch_shape: tuple[int, ...] = ()
        if any(batches.values()):
            try:
                self.batch_shape = np.broadcast_shapes(*batches.values())
            except ValueError:
                shown = ", ".join(f"{name} {list(shape)}" for name, shape in batches.items() if shape)
                raise ShapeError(f"batch dimensions do not broadcast together: {shown}") from None
        self.layout = Layout(self.batch_shape, self.n, self.m, self.p, patterns)
        self.size = self.layout.size
        self._flat: dict[str, Array] = {}
        self._index: dict[str, NDArray[np.intp] | None] = {}
        for name, array in given:
            batch = batches[name]
            if not batch:
                self._flat[name], self._index[name] = array[None], None
                continue
            count = math.prod(batch)
            self._flat[name] = array.reshape(count, *array.shape[len(batch) :])
            if count == 1:
                self._index[name] = None
            else:
                self._index[name] = np.broadcast_to(np.arange(count).reshape(batch), self.batch_shape).ravel()
        self._bounds_cross = False
        with np.errstate(over="ignore"):
            self._check_values()
        self._sparse = self._choose_layout()
        self._systems: dict[Hashable, System] = {}

    # ---- validation ------------------------------------------------------------------------------------------------

    def _core(self, name: str, array: Array) -> tuple[int, ...]:
        if name in self.patterns:
            return self.patterns[name].shape
        rank = _CORE_RANK[name]
        if array.ndim < rank:
            raise ShapeError(f"{name} has shape {list(array.shape)}; it needs at least {rank} dimension(s)")
        return array.shape[array.ndim - rank :]

    def _batch_of(self, name: str, array: Array) -> tuple[int, ...]:
        return array.shape[: array.ndim - (1 if name in self.patterns else _CORE_RANK[name])]

    @staticmethod
    def _check_shapes(given: dict[str, tuple[int, ...]]) -> tuple[int, int, int]:
        n = given["q"][0]
        if n == 0:
            raise ShapeError("q has no entries: a problem needs at least one variable")
        for matrix, vector, kind in (("G", "h", "inequalities Gx ≤ h"), ("A", "b", "equalities Ax = b")):
            if (matrix in given) != (vector in given):
                absent, present = (vector, matrix) if matrix in given else (matrix, vector)
                raise ShapeError(f"{present} is given without {absent}: {kind} need both")
        expected = {"P": (n, n), "q": (n,), "lb": (n,), "ub": (n,)}
        for matrix, vector in (("G", "h"), ("A", "b")):
            if matrix in given:
                expected[matrix] = (given[vector][0], n)
        for name, shape in expected.items():
            if name in given and given[name] != shape:
                beside = "q" if name in ("P", "lb", "ub") else f"q and {'h' if name == 'G' else 'b'}"
                raise ShapeError(
                    f"{name} is {' × '.join(map(str, given[name]))} (without batch dimensions) but must be "
                    f"{' × '.join(map(str, shape))} to go with {beside} (n = {n})"
                )
        return n, given["h"][0] if "h" in given else 0, given["b"][0] if "b" in given else 0

    def _check_values(self) -> None:
        flat = self._flat
        for name in ("P", "q", "G", "A", "b"):
            if name in flat and not _surely_finite(flat[name]):
                self._refuse(name, ~np.isfinite(flat[name]), "must be finite")
        if "h" in flat and not _surely_finite(flat["h"]):
            self._refuse("h", np.isnan(flat["h"]), "must not be NaN (use inf for no limit)")
            below = flat["h"] == -np.inf
            if below.any():
                where, row = np.argwhere(below)[0]
                raise InfeasibleError(f"row {row} of G has h = -inf", batch_element=self._element_of("h", int(where)))
        for name, forbidden in (("lb", np.inf), ("ub", -np.inf)):
            if name in flat and not _surely_finite(flat[name]):
                self._refuse(name, np.isnan(flat[name]), f"must not be NaN (use {-forbidden} for no bound)")
                self._refuse(name, flat[name] == forbidden, f"must not be {forbidden}")
        if "lb" in flat and "ub" in flat:
            lb, ub = self._flat["lb"], self._flat["ub"]
            i, j = self._index["lb"], self._index["ub"]
            lower, upper = (lb if i is None else lb[i]), (ub if j is None else ub[j])
            crossed = lower > upper
            if crossed.any():
                # By no more than rounding, they are the same bound.
                share = 4.0 * max(self.limits_precision, float(np.finfo(np.float64).eps))
                with np.errstate(invalid="ignore"):
                    crossed &= ~(lower - upper <= share * np.maximum(np.abs(lower), np.abs(upper)))
                self._bounds_cross = not crossed.any()
            if crossed.any():
                k, variable = np.argwhere(crossed)[0]
                raise InfeasibleError(f"lb > ub for variable {variable}", batch_element=self.unravel(int(k)))

    def _refuse(self, name: str, bad: Mask, rule: str) -> None:
        if bad.any():
            where = np.argwhere(bad)[0]
            entry = ", ".join(str(int(i)) for i in where[1:])
            value = self._flat[name][tuple(where)]
            raise NonFiniteError(
                f"{name}[{entry}] is {value}; {name} {rule}",
                batch_element=self._element_of(name, int(where[0])),
            )

    def _element_of(self, name: str, flat: int) -> tuple[int, ...]:
        index = self._index[name]
        return () if index is None else self.unravel(int(np.flatnonzero(index == flat)[0]))

    def unravel(self, k: int) -> tuple[int, ...]:
        """Batch index of the k-th element; () without batch dimensions."""
        return self.layout.unravel(k)

    # ---- elements --------------------------------------------------------------------------------------------------

    def _choose_layout(self) -> dict[str, tuple[SparsePattern, Array]] | None:
        """Patterns and values [k, nnz] of the matrices for sparse treatment, or None for dense treatment."""
        if self.n <= _ALWAYS_DENSE:
            return None
        given = [name for name in _MATRICES if name in self._flat]
        if not self.size:
            return None
        if not self.patterns:
            cells = sum(self._flat[name][0].size for name in given)
            if sum(np.count_nonzero(self._flat[name][0]) for name in given) > _SPARSE_SHARE * cells:
                return None
        out = {}
        for name in given:
            values = self._flat[name]
            if name in self.patterns:
                out[name] = self.patterns[name], values
                continue
            mask = (values != 0.0).any(0)
            rows, columns = np.nonzero(mask)
            indptr = np.concatenate([[0], np.cumsum(mask.sum(1))])
            out[name] = (
                SparsePattern(indptr, columns, mask.shape),
                np.ascontiguousarray(values[:, rows, columns]),
            )
        return out

    def index(self, name: str, k: int) -> int:
        """Which entry of the flattened argument belongs to the k-th element."""
        index = self._index[name]
        return 0 if index is None else int(index[k])

    def own_vectors(self) -> list[Array | None]:
        """Copies of q, b, h, lb and ub, which are the program's from now on: [size, ·], [1, ·] where all share one."""
        own: list[Array | None] = []
        for name in ("q", "b", "h", "lb", "ub"):
            if name not in self._flat:
                own.append(None)
                continue
            index = self._index[name]
            self._flat[name] = self._flat[name].copy() if index is None else self._flat[name][index]
            if index is not None:
                self._index[name] = np.arange(self.size)
            own.append(self._flat[name])
        if "h" in self._flat and not _surely_finite(self._flat["h"]):
            # Without rows that have no limit, the matrices may have to be looked at again.
            self._flat |= {name: self._flat[name].copy() for name in _MATRICES if name in self._flat}
        return own

    def value(self, name: str, k: int) -> Array | None:
        """Argument of the k-th element: vector, dense matrix, or values on the pattern."""
        return self._flat[name][self.index(name, k)] if name in self._flat else None

    def dense_matrix(self, name: str, k: int) -> Array:
        """Matrix of the k-th element as an array; with zero rows if absent."""
        value = self.value(name, k)
        if value is None:
            return np.zeros((0, self.n))
        if name in self.patterns:
            dense: Array = self.patterns[name].matrix(value).toarray()
            return dense
        return value

    def element(self, k: int) -> Element:
        """The k-th problem, equilibrated.  Elements with the same matrices share them and their scaling."""
        h = self.value("h", k)
        limited = None
        if h is not None and np.isinf(h.max(initial=0.0)):
            limited = h < np.inf
        system = self._known_system(k, limited)
        return Element(system, self._vectors(k, system, limited), limited)

    def compact(self) -> tuple[list[CompactMatrices], NDArray[np.intp]] | None:
        """The matrices of the batch for compiled loops, each once, and which are whose; None where not."""
        if not self.size:
            return None
        indices = [index for name in _MATRICES if (index := self._index.get(name)) is not None]
        if not indices:
            firsts, of_system = np.zeros(1, dtype=np.intp), np.zeros(self.size, dtype=np.intp)
        else:
            _, firsts, of_system = np.unique(np.stack(indices), axis=1, return_index=True, return_inverse=True)
        found = []
        for k in firsts:
            system = self._known_system(int(k), None)
            if system.compact is None:
                return None
            found.append(system.compact)
        return found, of_system.reshape(-1)

    def _known_system(self, k: int, limited: Mask | None) -> System:
        key = (
            tuple(self.index(name, k) for name in _MATRICES if name in self._flat),
            None if limited is None else limited.tobytes(),
        )
        system = self._systems.get(key)
        if system is None:
            if self._sparse is None and self.n <= SMALL_VARIABLES:
                # Small matrices are recognised by their values from one call to the next.
                P, G, A = (self.value(name, k) for name in _MATRICES)
                if self.patterns:
                    P, G, A = (None if name not in self._flat else self.dense_matrix(name, k) for name in _MATRICES)
                system = small_system(P, G, A, key[1], self.precision, lambda: self._system(k, limited))
            else:
                system = self._system(k, limited)
            self._systems[key] = system
        return system

    def _system(self, k: int, limited: Mask | None) -> System:
        """The equilibrated matrices of the k-th problem, found convex."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            system: System | None = (
                self._dense_system(k, limited) if self._sparse is None else self._sparse_system(k, limited)
            )
        assert system is not None
        if not (math.isfinite(system.c) and np.isfinite(system.D).all() and np.isfinite(system.E).all()):
            self._refuse_range(k)
        if system.has_curvature and system.smallest_curvature_is_negative():
            system = self._lifted_system(k, limited)
        if system is None:
            raise NonConvexError(
                "P is not positive semidefinite: the problem is not convex; check the sign of P or shift it",
                batch_element=self.unravel(k),
            )
        return system

    def _lifted_system(self, k: int, limited: Mask | None) -> System | None:
        """Where P is only known to lower precision: the system with P lifted by that rounding, if it is convex then."""
        rounding = 4.0 * self.n * self.precision
        if rounding <= _DOUBLE_ROUNDING:
            return None
        P = self.dense_matrix("P", k)
        lift = rounding * float(np.abs(P).max())
        if self._sparse is None:
            system: System = self._dense_system(k, limited, lift)
        else:
            pattern = self._sparse["P"][0]
            if int((pattern.rows == pattern.indices).sum()) < self.n:
                return None
            system = self._sparse_system(k, limited, lift)
        return None if system.smallest_curvature_is_negative() else system

    def _dense_system(self, k: int, limited: Mask | None, lift: float = 0.0) -> System:
        P = self.dense_matrix("P", k)
        P = 0.5 * (P + P.T)
        if lift:
            P = P + lift * np.eye(self.n)
        pieces = [self.dense_matrix(name, k) for name in ("A", "G") if name in self._flat]
        if limited is not None:
            pieces[-1] = pieces[-1][limited]
        C = pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.zeros((0, self.n))
        return DenseSystem(P, C, self.p)

    def _sparse_system(self, k: int, limited: Mask | None, lift: float = 0.0) -> System:
        assert self._sparse is not None
        P, P_values = self._sparse["P"]
        P_entries = P_values[self.index("P", k)]
        if lift:
            P_entries = P_entries + np.where(P.rows == P.indices, lift, 0.0)
        rows = {name: self._sparse[name] for name in ("A", "G") if name in self._sparse}
        data = [
            values[self.index(name, k)]
            if name == "A" or limited is None
            else values[self.index(name, k)][limited[pattern.rows]]
            for name, (pattern, values) in rows.items()
        ]
        key = (
            P,
            *((name, pattern) for name, (pattern, _) in rows.items()),
            None if limited is None else limited.tobytes(),
        )
        structure = structure_of_arguments(
            key, lambda: self._structure(P, {name: pattern for name, (pattern, _) in rows.items()}, limited)
        )
        return structure.system(P_entries, np.concatenate(data) if data else np.zeros(0))

    def _structure(self, P: SparsePattern, rows: dict[str, SparsePattern], limited: Mask | None) -> SparseStructure:
        """The structure of P and the rows of A and (the limited ones of) G below one another."""
        indptr = [np.zeros(1, dtype=np.int64)]
        indices = [np.zeros(0, np.int32)]
        n_rows, end = 0, 0
        for name, pattern in rows.items():
            row_ends, columns = pattern.indptr, pattern.indices
            if name == "G" and limited is not None:
                columns = columns[limited[pattern.rows]]
                row_ends = np.concatenate([[0], np.cumsum(np.diff(row_ends)[limited])])
            indptr.append(row_ends[1:].astype(np.int64) + end)
            indices.append(columns)
            n_rows += row_ends.size - 1
            end += columns.size
        C = SparsePattern(np.concatenate(indptr), np.concatenate(indices), (n_rows, self.n))
        return structure_of(P, C, self.p)

    def _vectors(self, k: int, system: System, limited: Mask | None) -> ScaledVectors:
        q, h, b = self.value("q", k), self.value("h", k), self.value("b", k)
        lb, ub = self.value("lb", k), self.value("ub", k)
        assert q is not None
        if self._bounds_cross and lb is not None and ub is not None:
            lb = np.minimum(lb, ub)
        if h is not None and limited is not None:
            h = h[limited]
        vectors = scale(system, q, b, h, lb, ub).vectors()
        if not (np.isfinite(vectors.q).all() and np.isfinite(vectors.d).all() and vectors.alpha > 0.0):
            self._refuse_range(k)
        return vectors

    def _refuse_range(self, k: int) -> NoReturn:
        raise ProblemError(
            "the program cannot be scaled in double precision: it holds numbers of about 1e-308 or 1e308; give it in "
            "other units",
            batch_element=self.unravel(k),
        )
