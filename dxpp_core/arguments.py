"""Sparse tensors as arguments: their values, through which gradients flow, and their pattern beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .errors import ShapeError
from .matrices.pattern import SparsePattern

__all__ = ["native_arrays", "own_numbers", "split_argument"]

# The latest pattern of each matrix, by name and shape: one that comes again is not analysed again.
_latest: dict[tuple[str, int, int], SparsePattern] = {}
_PATTERNS = 64
_FLOAT64 = np.dtype(np.float64)


def _is_pattern(known: SparsePattern, pointers: NDArray[Any], minors: NDArray[Any]) -> bool:
    return (
        known.indices.size == minors.size
        and bool((known.indptr == pointers).all())
        and bool((known.indices == minors).all())
    )


def native_arrays(tensors: Sequence[Tensor | None]) -> list[NDArray[np.float64] | None] | None:
    """The numbers of dense tensors of float64 on the CPU; None if one is anything else."""
    try:
        P = tensors[0]
        if P is None or P.layout is not torch.strided:
            return None
        arrays = [None if tensor is None else own_numbers(tensor) for tensor in tensors]
    except (AttributeError, TypeError, RuntimeError):
        # Sparse, elsewhere, without numbers (on the meta device, inside a transform), or no tensor at all.
        return None
    for array in arrays:
        if array is not None and array.dtype is not _FLOAT64:
            return None
    return arrays


def own_numbers(tensor: Tensor) -> NDArray[Any]:
    """The memory of a dense tensor on the CPU; an error of PyTorch's if it has none to show."""
    # Twice as fast as `numpy(force=True)`, which asks for more.
    return tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()


def split_argument(name: str, tensor: Tensor | None, patterns: dict[str, SparsePattern]) -> Tensor | None:
    """A dense argument as it is; a sparse one as its values in row-major order, its pattern put beside."""
    if tensor is None:
        return None
    if not isinstance(tensor, Tensor):
        raise ShapeError(f"{name} is a {type(tensor).__name__}; every argument is a torch.Tensor or None")
    if tensor.device.type == "meta":
        raise ShapeError(f"{name} is a meta tensor, which has no values")
    if not tensor.dtype.is_floating_point:
        raise ShapeError(f"{name} has dtype {tensor.dtype}; arguments are floating-point tensors")
    layout = tensor.layout
    if layout is torch.strided:
        return tensor
    if name not in ("P", "G", "A"):
        raise ShapeError(f"{name} is sparse; only the matrices P, G and A may be")
    if layout is torch.sparse_coo:
        return _split_coo(name, tensor.coalesce(), patterns)
    if layout not in (torch.sparse_csr, torch.sparse_csc):
        raise ShapeError(f"{name} has layout {layout}; use strided, COO, CSR or CSC")
    by_rows = layout is torch.sparse_csr
    pointers = (tensor.crow_indices() if by_rows else tensor.ccol_indices()).cpu().numpy()
    minors = (tensor.col_indices() if by_rows else tensor.row_indices()).cpu().numpy()
    pointers = pointers.reshape(-1, pointers.shape[-1])
    minors = minors.reshape(pointers.shape[0], minors.shape[-1])
    if len(pointers) > 1 and ((pointers != pointers[0]).any() or (minors != minors[0]).any()):
        raise ShapeError(f"the elements of the sparse batch {name} have different patterns; they must share one")
    rows, columns = int(tensor.shape[-2]), int(tensor.shape[-1])
    values = tensor.values()
    if by_rows:
        known = _latest.get((name, rows, columns))
        if known is not None and _is_pattern(known, pointers[0], minors[0]):
            patterns[name] = known
            return values
    lengths = pointers[0, 1:] - pointers[0, :-1]
    majors = np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)
    if by_rows:
        # Sorted within each row: every step to a smaller or equal column is a step to another row.
        back = minors[0, 1:] <= minors[0, :-1]
        if not back.any() or (majors[1:] != majors[:-1])[back].all():
            patterns[name] = SparsePattern(pointers[0].copy(), minors[0].copy(), (rows, columns), majors)
            if len(_latest) >= _PATTERNS:
                _latest.clear()
            _latest[name, rows, columns] = patterns[name]
            return values
    i, j = (majors, minors[0]) if by_rows else (minors[0], majors)
    order = np.lexsort((j, i))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=rows))])
    patterns[name] = SparsePattern(indptr, j[order], (rows, columns))
    return values[..., torch.from_numpy(order).to(values.device)]


def _split_coo(name: str, tensor: Tensor, patterns: dict[str, SparsePattern]) -> Tensor:
    indices = tensor.indices().cpu().numpy()
    values = tensor.values()
    if tensor.dense_dim():
        raise ShapeError(f"{name} is a hybrid sparse tensor; its entries must be numbers")
    *batch, rows, columns = (int(length) for length in tensor.shape)
    count = int(np.prod(batch)) if batch else 1
    if not count:
        patterns[name] = SparsePattern(np.zeros(rows + 1), np.zeros(0), (rows, columns))
        return values.reshape(*batch, 0)
    if values.numel() % count:
        raise ShapeError(f"the elements of the sparse batch {name} have different patterns; they must share one")
    cells = (indices[-2].astype(np.int64) * columns + indices[-1]).reshape(count, -1)
    if (cells != cells[0]).any():
        raise ShapeError(f"the elements of the sparse batch {name} have different patterns; they must share one")
    i, j = cells[0] // columns, cells[0] % columns
    patterns[name] = SparsePattern(np.concatenate([[0], np.cumsum(np.bincount(i, minlength=rows))]), j, (rows, columns))
    return values.reshape(*batch, -1)
