"""Kernels are compiled once a machine, whoever asks for them first and with whatever arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_MODULE = """
import os
from pathlib import Path

from dxpp_core.compilation import compiled

with Path(__file__).with_name("seen").open("a") as seen:
    seen.write(f"{os.getpid()}\\n")


@compiled
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result
"""
_ASK = """
import numpy as np
from kernel_of_the_test import total
values = np.arange(4.0)
values.flags.writeable = WRITEABLE
print(total(values), total(np.arange(3.0)), total(values))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "kernel_of_the_test.py").write_text(_MODULE)
    return os.environ | {
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }


def _ask(environment: dict[str, str], *, writeable: bool) -> subprocess.Popen[str]:
    code = _ASK.replace("WRITEABLE", str(writeable))
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)


def test_processes_that_ask_at_once_compile_once(environment: dict[str, str], tmp_path: Path) -> None:
    asking = [_ask(environment, writeable=writeable) for writeable in (True, False, True)]
    answers = [process.communicate(timeout=120)[0].split() for process in asking]
    assert answers == [["6.0", "3.0", "6.0"]] * 3
    # Three that ask, and one that compiles.
    assert len((tmp_path / "seen").read_text().split()) == 4
