"""What all tests share: where real data lies, how threads and random state are set, which files run first."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A law is tried on the same examples every time: a failure seen once can be seen again.
settings.register_profile("laws", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")

#: Files that take longest, and that compile different kernels, come first: what is left for the end is short.
_FIRST = (
    "portfolio_dfl/study/test_killed_studies.py",
    "dxpp_core/test_portfolio_programs.py",
    "dxpp_core/test_compilation.py",
    "portfolio_dfl/study/test_run.py",
    "portfolio_dfl/execution/test_fan_out.py",
)


def pytest_configure() -> None:
    """Linear algebra in one thread, here and in processes that tests start: threads that wait for one another use up
    the processors of several times the work, of small matrices above all."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # read when NumPy and SciPy are loaded
    import torch

    torch.set_num_threads(1)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell's background, which what tests start would inherit
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {Path(__file__).parent / name: place for place, name in enumerate(_FIRST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real prices and quadratic programs that lies beside the checkout; absent on most machines."""
    root = Path(__file__).resolve().parents[1]
    for folder in (root.parent / "shared" / "data", root / "shared" / "data"):
        if folder.is_dir():
            return folder
    pytest.skip("no shared/data folder beside the checkout")
