"""Kernels are compiled once a machine, whoever asks for them first; trouble with what is stored costs time only."""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch

from dxpp_core import compilation, solve_qp

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
_ANSWER = ["6.0", "3.0", "6.0"]
_AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def _write_module(folder: Path, name: str = "kernel_of_the_test") -> dict[str, str]:
    """A module with one kernel, and the environment in which processes find it."""
    (folder / f"{name}.py").write_text(_MODULE)
    return os.environ | {
        "PYTHONPATH": f"{folder}{os.pathsep}{Path(compilation.__file__).parents[1]}",
        "NUMBA_CACHE_DIR": str(folder / "cache"),
    }


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return _write_module(tmp_path)


def _ask(
    environment: dict[str, str], *, writeable: bool = True, user: Sequence[str] = (), **options: Any
) -> subprocess.Popen[str]:
    command = [*user, sys.executable, "-c", _ASK.replace("WRITEABLE", str(writeable))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **pipes, **options)


def _answer(environment: dict[str, str], **options: Any) -> tuple[list[str], str]:
    """What a process of its own answers, and what it says beside."""
    out, said = _ask(environment, **options).communicate(timeout=120)
    return out.split(), said.replace(f"{compilation.ANNOUNCEMENT}\n", "")


def _files(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.rglob("*") if path.suffix in (".nbi", ".nbc"))


def test_processes_that_ask_at_once_compile_once(environment: dict[str, str], tmp_path: Path) -> None:
    asking = [_ask(environment, writeable=writeable) for writeable in (True, False, True)]
    answers = [process.communicate(timeout=120)[0].split() for process in asking]
    assert answers == [_ANSWER] * 3
    # Three that ask, and one that compiles.
    assert len((tmp_path / "seen").read_text().split()) == 4


@pytest.fixture
def kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[[], Callable[..., float]]]:
    """Makes the kernel of a new module in this process, as a process that has not met it yet."""
    name = f"kernel_{tmp_path.name}"
    for variable, value in _write_module(tmp_path, name).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    caplog.set_level(logging.WARNING, "dxpp_core")

    def load() -> Callable[..., float]:
        sys.modules.pop(name, None)
        importlib.reload(compilation)
        total: Callable[..., float] = importlib.import_module(name).total
        return total

    yield load
    sys.modules.pop(name, None)


def _executable(folder: Path, text: str) -> str:
    script = folder / "program"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize("program", ["none", "missing", "failing", "other", "frozen"])
def test_without_a_compiling_process_this_one_compiles_and_stores(
    kernel: Callable[[], Callable[..., float]],
    program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = tmp_path / "started"
    path = {
        "none": "",
        "missing": str(tmp_path / "no" / "python"),
        "failing": _executable(tmp_path, "echo no memory >&2; exit 3"),
    }.get(program) or _executable(tmp_path, f"touch {started}")
    monkeypatch.setattr(sys, "executable", "" if program == "none" else path)
    if program == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    total = kernel()
    assert total(np.arange(4.0)) == 6.0
    assert total(np.arange(4, dtype=np.float32)) == 6.0
    assert len(caplog.messages) == 1
    assert "compiling in memory" in caplog.text
    if program == "failing":
        assert "no memory" in caplog.text
    # A frozen program is itself what `sys.executable` names: it must not be started over.
    assert started.exists() == (program == "other")
    caplog.clear()
    assert kernel()(np.arange(3.0)) == 3.0
    assert not caplog.messages


def test_threads_that_bring_other_types_wait_for_one_another(kernel: Callable[[], Callable[..., float]]) -> None:
    total = kernel()
    assert total(np.arange(4.0)) == 6.0
    kinds = [np.float32, np.int64, np.float32, np.float64, np.int64, np.int32]
    with ThreadPoolExecutor(len(kinds)) as pool:
        found = list(pool.map(lambda kind: total(np.arange(4).astype(kind)), kinds))
    assert found == [6.0] * len(kinds)


def test_a_long_silence_is_explained_on_standard_error(
    kernel: Callable[[], Callable[..., float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "executable", _executable(tmp_path, "sleep 2.5; exit 3"))
    assert kernel()(np.arange(4.0)) == 6.0
    assert capsys.readouterr().err == f"{compilation.ANNOUNCEMENT}\n"
    assert kernel()(np.arange(4.0)) == 6.0  # stored now
    assert capsys.readouterr().err == ""


def test_where_no_folder_can_be_written_kernels_are_compiled_in_memory(
    kernel: Callable[[], Callable[..., float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    nowhere = tmp_path / "file"
    nowhere.touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(nowhere / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "__pycache__").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere))
    total = kernel()
    assert [total(np.arange(4.0)), total(np.arange(4, dtype=np.float32))] == [6.0, 6.0]
    assert len(caplog.messages) == 1
    assert "no folder that can be written" in caplog.text


def test_a_lock_that_cannot_be_had_does_not_stop_the_compiler(
    kernel: Callable[[], Callable[..., float]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert kernel()(np.arange(4.0)) == 6.0
    for path in list((tmp_path / "cache").rglob("*.*")):
        path.unlink()
        if path.suffix == ".lock":
            path.mkdir()
    assert kernel()(np.arange(3.0)) == 3.0
    assert _files(tmp_path / "cache") == [".nbc", ".nbi"]
    assert not caplog.messages


@pytest.mark.parametrize(
    ("suffix", "content"),
    [(".nbi", b""), (".nbi", b"broken"), (".nbc", b"broken"), (".nbc", None)],
    ids=["empty index", "broken index", "broken code", "no code"],
)
def test_stored_code_that_cannot_be_used_is_made_anew(
    kernel: Callable[[], Callable[..., float]],
    suffix: str,
    content: bytes | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with monkeypatch.context() as without_process:
        without_process.setattr(sys, "executable", "")
        assert kernel()(np.arange(4.0)) == 6.0
    caplog.clear()
    (file,) = (tmp_path / "cache").rglob(f"*{suffix}")
    whole = file.read_bytes()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert kernel()(np.arange(3.0)) == 3.0
    assert file.stat().st_size > 0.5 * len(whole)
    assert not caplog.messages


def test_on_a_full_disk_kernels_are_compiled_in_memory(environment: dict[str, str], tmp_path: Path) -> None:
    def no_space() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    answer, said = _answer(environment | {"PYTHONDONTWRITEBYTECODE": "1"}, preexec_fn=no_space)
    assert answer == _ANSWER
    assert said.count("compiling in memory") == 1
    assert "File too large" in said
    assert _answer(environment) == (_ANSWER, "")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    if os.geteuid() != 0 or shutil.which(_AS_NOBODY[0]) is None:
        pytest.skip("only root, with setpriv, may start a process of another user")
    looks = [*_AS_NOBODY, sys.executable, "-c", "import numba; from dxpp_core import compilation"]
    if subprocess.run(looks, capture_output=True, check=False).returncode:
        pytest.skip("another user cannot read this Python, its packages or this checkout")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("beside_the_module", [True, False])
def test_code_stored_by_another_user_is_used(open_folder: Path, beside_the_module: bool) -> None:
    environment = _write_module(open_folder)
    (open_folder / "seen").touch()
    (open_folder / "seen").chmod(0o666)
    if beside_the_module:
        del environment["NUMBA_CACHE_DIR"]
    assert _answer(environment) == (_ANSWER, "")
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "HOME": str(open_folder)}
    for lock in open_folder.rglob("*.lock"):
        lock.chmod(0o600)
    assert _answer(environment, user=_AS_NOBODY) == (_ANSWER, "")
    if beside_the_module:
        # A folder that is shared, with a lock that is not.
        (open_folder / "__pycache__").chmod(0o777)
        assert _answer(environment, user=_AS_NOBODY) == (_ANSWER, "")
    # Those that ask, and the one that compiled for the first.
    assert len((open_folder / "seen").read_text().split()) == 3 + beside_the_module
    assert _files(open_folder) == [".nbc", ".nbi"]


def test_without_the_compiler_results_are_the_same() -> None:
    code = """
import json, torch
from dxpp_core import solve_qp
q = torch.tensor([0.3, -1.0, 0.1], dtype=torch.float64, requires_grad=True)
P, lb = torch.diag(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)), torch.zeros(3, dtype=torch.float64)
x = solve_qp(P, q, A=torch.ones(1, 3, dtype=torch.float64), b=torch.ones(1, dtype=torch.float64), lb=lb).x
(x @ torch.arange(3.0, dtype=torch.float64)).backward()
print(json.dumps([x.tolist(), q.grad.tolist()]))
"""
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": str(Path(compilation.__file__).parents[1]),
    }
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    x, gradient = (torch.tensor(part, dtype=torch.float64) for part in json.loads(run.stdout))
    q = torch.tensor([0.3, -1.0, 0.1], dtype=torch.float64, requires_grad=True)
    P, lb = torch.diag(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)), torch.zeros(3, dtype=torch.float64)
    found = solve_qp(P, q, A=torch.ones(1, 3, dtype=torch.float64), b=torch.ones(1, dtype=torch.float64), lb=lb).x
    (found @ torch.arange(3.0, dtype=torch.float64)).backward()
    torch.testing.assert_close(x, found.detach(), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(gradient, q.grad, rtol=1e-13, atol=1e-13)
    assert run.stderr == ""
