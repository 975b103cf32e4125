"""Arithmetic that depends on a seed alone: not on what the process did before, nor on its other threads."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache

import numpy as np
import torch
from threadpoolctl import ThreadpoolController

from portfolio_dfl.execution.process import alone

__all__ = ["reproducible"]


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Everything global that numbers depend on set to one state, and put back as it was; one thread at a time.

    Torch's, NumPy's and Python's random states are seeded, for predictors of users draw from them. Arithmetic runs on
    one thread, since sums over several depend on how they are split. Default dtype and device, gradients and NumPy's
    handling of floating-point errors are those of a fresh process.
    """
    with alone(), _kept():
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 (what users' code may draw from)
        random.seed(seed)
        with (
            _thread_pools(frozenset(sys.modules)).limit(limits=1),
            # A mode of torch's functions, which every call of one would pass: only where it is needed.
            nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"),
            torch.autocast("cpu", enabled=False),
            torch.inference_mode(False),
            torch.enable_grad(),
            np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),
        ):
            yield


@lru_cache(1)
def _thread_pools(modules: frozenset[str]) -> ThreadpoolController:
    """The libraries with threads of their own, looked for again where other modules are loaded than before."""
    return ThreadpoolController()


@contextmanager
def _kept() -> Iterator[None]:
    """Put back afterwards what has no context manager of its own."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
