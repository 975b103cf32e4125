"""Fixtures shared by all tests: where real data lies, and how threads and random state are set."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

# A law is tried on the same examples every time: a failure seen once can be seen again.
settings.register_profile("laws", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")
# Small LAPACK calls under several BLAS threads are far slower than under one.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real prices and quadratic programs that lies beside the checkout; absent on most machines."""
    root = Path(__file__).resolve().parents[1]
    for folder in (root.parent / "shared" / "data", root / "shared" / "data"):
        if folder.is_dir():
            return folder
    pytest.skip("no shared/data folder beside the checkout")
