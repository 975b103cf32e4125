"""The wheels of both distributions, built without the network: every file that the packages read, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dxpp_core", "portfolio_dfl")
#: About the core's own distribution; nothing reads them once it is installed.
UNREAD = {"dxpp_core/pyproject.toml", "dxpp_core/README.md", "dxpp_core/LICENSE"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Files of each wheel, by the name of its distribution; built from a copy, as building leaves files behind."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source)
    for package in (*PACKAGES, "tests/support"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    made = tmp_path_factory.mktemp("wheels")
    words = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(made)]
    subprocess.run([sys.executable, *words, str(source), str(source / "dxpp_core")], check=True, timeout=120)
    return {file.name.partition("-")[0]: zipfile.ZipFile(file).namelist() for file in made.glob("*.whl")}


def sources(*packages: str) -> set[str]:
    files = {file.relative_to(ROOT) for package in packages for file in (ROOT / package).rglob("*") if file.is_file()}
    return {file.as_posix() for file in files if "__pycache__" not in file.parts} - UNREAD


@pytest.mark.parametrize(("distribution", "packages"), [("portfolio_dfl", PACKAGES), ("dxpp_core", ("dxpp_core",))])
def test_a_wheel_has_what_its_packages_read_and_no_tests(
    distribution: str, packages: tuple[str, ...], wheels: dict[str, list[str]]
) -> None:
    about = [file for file in wheels[distribution] if file.split("/")[0].endswith(".dist-info")]
    assert set(wheels[distribution]) - set(about) == sources(*packages)
    assert any(file.endswith("/licenses/LICENSE") for file in about)


def test_both_distributions_have_the_same_licence() -> None:
    assert (ROOT / "dxpp_core" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_example_of_the_core_s_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "dxpp_core" / "README.md").read_text(encoding="utf-8")
    exec(text.partition("```python\n")[2].partition("```")[0], {})
    assert capsys.readouterr().out.split("tensor")[1:] == [
        "([0.7000, 0.3000, 0.0000], dtype=torch.float64)\n(",
        "([ 0.5000, -0.5000,  0.0000], dtype=torch.float64),)\n",
    ]
