"""How what a solve leaves behind lies in two flat arrays.

Compiled functions are called the sooner the fewer arrays they are given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dxpp_core.compilation import viewing

__all__ = [
    "FACTS",
    "Found",
    "Signs",
    "open_signs",
    "open_store",
    "signs_size",
    "store_size",
    "view_signs",
    "view_store",
]

_Array = NDArray[np.float64]
_Int8 = NDArray[np.int8]

# Facts about every instance (see `native.NativeResult`).
FACTS = 10


class Found(NamedTuple):
    """Multipliers and facts, and, with ``keep``, the factor: pull, pressure [B, H, N], nu, theta [B, H], …"""

    pull: _Array
    pressure: _Array
    nu: _Array
    theta: _Array
    facts: _Array
    C: _Array
    q: _Array
    sigma: _Array


class Signs(NamedTuple):
    """The active set of every instance: hold, trade [B, H, N], spent [B, H] (see `polish.Active`)."""

    hold: _Int8
    trade: _Int8
    spent: _Int8


def store_size(B: int, H: int, N: int, keep: bool) -> int:
    """Numbers of a store."""
    return B * (2 * H * N + 2 * H + FACTS) + (B * H * (N * N + N + 1) if keep else 0)


def signs_size(B: int, H: int, N: int) -> int:
    """Numbers of an active set."""
    return B * (2 * H * N + H)


def view_store(store: _Array, B: int, H: int, N: int, keep: bool) -> Found:
    """The parts of a store, without copying; what is not kept has no instances."""
    rows, stages = B * H * N, B * H
    a = 2 * rows
    b = a + 2 * stages
    c = b + FACTS * B
    kept = B if keep else 0
    d = c + kept * H * N * N
    e = d + kept * H * N
    f = e + kept * H
    return Found(
        store[:rows].reshape(B, H, N),
        store[rows:a].reshape(B, H, N),
        store[a : a + stages].reshape(B, H),
        store[a + stages : b].reshape(B, H),
        store[b:c].reshape(B, FACTS),
        store[c:d].reshape(kept, H, N, N),
        store[d:e].reshape(kept, H, N),
        store[e:f].reshape(kept, H),
    )


def view_signs(signs: _Int8, B: int, H: int, N: int) -> Signs:
    """The parts of an active set, without copying."""
    rows = B * H * N
    return Signs(
        signs[:rows].reshape(B, H, N),
        signs[rows : 2 * rows].reshape(B, H, N),
        signs[2 * rows : 2 * rows + B * H].reshape(B, H),
    )


open_store = viewing(view_store)
open_signs = viewing(view_signs)
