"""What is known from earlier calls: the structures of sparsity patterns, the systems of small matrices."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..matrices import System
from ..matrices.dense import SMALL_VARIABLES
from ..matrices.pattern import SparsePattern
from ..matrices.sparse import SparseStructure

__all__ = [
    "Content",
    "LeastRecentlyUsed",
    "known_small_system",
    "read_content",
    "small_system",
    "structure_of",
    "structure_of_arguments",
]

Array = NDArray[np.float64]

_Value = TypeVar("_Value")


class LeastRecentlyUsed(Generic[_Value]):
    """What is costly to make again, by a key that determines it; the least recently used one makes room."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: OrderedDict[Hashable, _Value] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, key: Hashable) -> _Value | None:
        with self._lock:
            value = self._known.get(key)
            if value is not None:
                self._known.move_to_end(key)
            return value

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        value = self.known(key)
        if value is not None:
            return value
        value = make()
        with self._lock:
            self._known[key] = value
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return value


_structures: LeastRecentlyUsed[SparseStructure] = LeastRecentlyUsed(64)
# By the patterns of the arguments themselves, where these are the objects met before.
_structures_by_argument: LeastRecentlyUsed[SparseStructure] = LeastRecentlyUsed(64)
_small_systems: LeastRecentlyUsed[System] = LeastRecentlyUsed(32)
Content: TypeAlias = tuple[tuple[tuple[int, ...], bytes] | None, ...]
# The latest of them once more: to compare the bytes of its matrices is quicker than to look them up.
_latest_small: tuple[Content, System | None] = ((), None)


def _content(P: Array | None, G: Array | None, A: Array | None) -> Content:
    return tuple([None if part is None else (part.shape, part.tobytes()) for part in (P, G, A)])


def known_small_system(P: Array | None, G: Array | None, A: Array | None) -> tuple[System, Content] | None:
    """The system of these dense float64 matrices, with no infinite h, and their content, if it was made before."""
    if P is None or P.shape[-1] > SMALL_VARIABLES:
        return None
    global _latest_small
    content = _content(P, G, A)
    latest, system = _latest_small
    if content != latest:
        system = _small_systems.known((*content, None, 0.0))
        if system is not None:
            _latest_small = content, system
    return None if system is None else (system, content)


def read_content(content: Content) -> list[Array | None]:
    """P, G and A once more, whatever has become of the arrays that they were given as."""
    return [None if part is None else np.frombuffer(part[1]).reshape(part[0]) for part in content]


def small_system(
    P: Array | None,
    G: Array | None,
    A: Array | None,
    limited: bytes | None,
    precision: float,
    make: Callable[[], System],
) -> System:
    """The system of these dense matrices, with these rows of G limited (None: all); made if it was not met before."""
    return _small_systems.get((*_content(P, G, A), limited, precision), make)


def structure_of_arguments(key: Hashable, make: Callable[[], SparseStructure]) -> SparseStructure:
    """The structure of these very pattern objects; made if they were not met before."""
    return _structures_by_argument.get(key, make)


def structure_of(P: SparsePattern, C: SparsePattern, n_eq: int) -> SparseStructure:
    """The structure of these patterns, recognised by their fingerprint."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (P.indptr, P.indices, C.indptr, C.indices):
        digest.update(array.data)
    key = (digest.digest(), P.shape, C.shape, n_eq)
    return _structures.get(key, lambda: SparseStructure(P, C, n_eq, key))
