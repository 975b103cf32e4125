"""The site: built without a warning and without the network, every public name in its reference, no dead link."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dxpp_core
import portfolio_dfl
from dxpp_core import benchmark, compilation, reference, threads, tracing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "pages"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
QUIET += ["--disable-background-networking", "--disable-component-update"]
PUBLIC = {
    f"{module.__name__}.{name}"
    for module in (portfolio_dfl, dxpp_core, benchmark, compilation, reference, threads, tracing)
    for name in module.__all__
}

# MkDocs where no connection can be made.
OFFLINE = """
import socket
def refuse(*_): raise OSError("no network while the site is built")
socket.socket.connect = refuse
from mkdocs.__main__ import cli
cli()
"""


class Page(HTMLParser):
    """What a page refers to, what it loads by itself, and where others can point to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.add(found.get("id") or "")
        if tag == "a":
            self.links.add(found.get("href") or "")
        elif tag == "link":
            self.loads.add(found.get("href") or "")
        self.loads.add(found.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-c", OFFLINE, "build", "--strict", "--config-file", "docs/mkdocs.yml"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [*command, "--site-dir", str(folder)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_the_command_builds_as_strictly_as_the_test() -> None:
    shown = subprocess.run(["make", "-n", "docs"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (command,) = (line for line in shown.splitlines() if "mkdocs build" in line)
    assert "--strict --config-file docs/mkdocs.yml" in command
    assert "quiet" not in command  # which keeps warnings from being counted


def test_no_page_loads_anything_from_elsewhere(pages: dict[Path, Page]) -> None:
    assert len(pages) > 10
    assert {load for page in pages.values() for load in page.loads if "//" in load} == set()


def test_every_link_within_the_site_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    dead = []
    for path, page in pages.items():
        if path.name == "404.html":  # whose links begin at the root of a server
            continue
        for link in page.links | page.loads:
            target, _, anchor = link.partition("#")
            if not link or ":" in target:
                continue
            file = (path.parent / target).resolve() if target else path
            if not file.is_file() or (anchor and file in pages and anchor not in pages[file].anchors):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_the_first_page_leads_to_every_page_that_is_written(site: Path, pages: dict[Path, Page]) -> None:
    written = {path.relative_to(PAGES).with_suffix(".html") for path in PAGES.rglob("*.md")}
    written |= {Path("tutorials", f"{path.stem}.html") for path in (ROOT / "docs" / "tutorials").glob("*.py")}
    first, reference = pages[site / "index.html"].links, pages[site / "reference" / "index.html"].links
    led_to = {Path(link) for link in first} | {Path("reference", link) for link in reference}
    assert sorted(map(str, written - led_to - {Path("index.html")})) == []


def listed() -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted((PAGES / "reference").glob("*.md"))]
    return [name for text in texts for name in re.findall(r"^::: (\S+)", text, re.MULTILINE)]


def test_the_reference_lists_every_public_name() -> None:
    assert sorted(PUBLIC - set(listed())) == []
    assert sorted(set(listed()) - PUBLIC) == []


def test_no_name_stands_in_the_reference_twice() -> None:
    names = listed()
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_every_public_name_has_its_place_in_the_built_reference(pages: dict[Path, Page]) -> None:
    anchors = set().union(*(page.anchors for page in pages.values()))
    assert sorted(PUBLIC - anchors) == []


def test_every_public_name_is_described() -> None:
    griffe = pytest.importorskip("griffe", reason="the extra docs is not installed")
    extensions = griffe.load_extensions(str(ROOT / "docs" / "docstrings.py"))
    loader = griffe.GriffeLoader(extensions=extensions, search_paths=[str(ROOT)])
    for package in ("dxpp_core", "portfolio_dfl"):
        loader.load(package)
    loader.resolve_aliases()
    things = {name: loader.modules_collection[name] for name in sorted(PUBLIC)}
    found = {name: thing.final_target if thing.is_alias else thing for name, thing in things.items()}
    assert [name for name, thing in found.items() if thing.docstring is None or not thing.docstring.value.strip()] == []


def test_every_method_and_property_of_a_public_class_is_described() -> None:
    silent = []
    for name in sorted(PUBLIC):
        module, _, own_name = name.rpartition(".")
        described = getattr(importlib.import_module(module), own_name)
        for key, member in vars(described).items() if inspect.isclass(described) else ():
            callable_ = inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)
            if callable_ and not key.startswith("_") and not inspect.getdoc(getattr(described, key)):
                silent.append(f"{name}.{key}")
    assert silent == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: what was asked for is nobody's concern."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site behind a server on this machine: from the disk a browser does not let the search read its index."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("page", ["index", "tutorials/first_study", "reference/decisions", "benchmarks", "comparison"])
def test_a_page_is_drawn_without_errors_or_overflow(browser: Browser, address: str, page: str, width: int) -> None:
    errors: list[str] = []
    asked: list[str] = []
    sheet = browser.new_page(viewport={"width": width, "height": 900})
    sheet.on("pageerror", lambda error: errors.append(str(error)))
    sheet.on("request", lambda request: asked.append(request.url))
    sheet.goto(f"{address}/{page}.html")
    assert sheet.evaluate("document.documentElement.scrollWidth") == width
    assert errors == []
    assert [url for url in asked if not url.startswith((address, "blob:", "data:"))] == []
    sheet.close()


@pytest.mark.browser
def test_the_search_finds_a_public_name(browser: Browser, address: str) -> None:
    sheet = browser.new_page(viewport={"width": 1400, "height": 900})
    sheet.goto(f"{address}/index.html", wait_until="networkidle")  # the index is there when it is asked
    sheet.click(".md-search__input")
    sheet.type(".md-search__input", "MultiPeriodMeanVariance")
    found = ".md-search-result__link[href*='reference/decisions.html']"
    sheet.wait_for_selector(found, state="attached", timeout=60_000)
    sheet.close()
