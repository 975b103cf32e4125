"""The source files of a user's own parts: collected, kept in a folder, and imported from what was kept.

An own module is read from the first folder of the search that has it, with every module beside it that it imports,
wherever it imports it. What is collected is put before Python's path, so that what runs is what was kept; a worker
on another machine needs no files. Modules of installed packages and compiled ones are left to Python.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from portfolio_dfl.errors import ConfigError

__all__ = ["OwnSources", "find_sources", "installed_sources"]

_BEGUN = time.time()
_ORIGINS = "folders.txt"
#: Places whose modules are there wherever the packages are installed.
_SHARED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_OURS = ("portfolio_dfl", "dxpp_core")


@dataclass(frozen=True)
class OwnSources:
    """Source files of own modules.

    Attributes
    ----------
    files : mapping of str to bytes
        Content by path relative to the folder that the modules were imported from, such as ``mine/losses.py``.
    folders : mapping of str to str
        That folder by the name of each top-level module.
    """

    files: Mapping[str, bytes]
    folders: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.files)

    def __or__(self, other: OwnSources) -> OwnSources:
        return OwnSources({**self.files, **other.files}, {**self.folders, **other.folders})

    def modules(self) -> dict[str, str]:
        """Path of each module by its name."""
        return {_module_of(path): path for path in self.files}

    def install(self) -> None:
        """Let Python import these modules from here, before anything else has them, until others are installed.

        A module that was imported before from another content is imported anew when it is next asked for.
        """
        global _installed
        if not self.files:
            return
        for name, path in self.modules().items():
            known = sys.modules.get(name)
            if known is not None and not _is_current(known, Path(self.folders[_top(name)]) / path, self.files[path]):
                del sys.modules[name]
        _installed = _installed | self
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)

    def save(self, folder: Path) -> list[str]:
        """Write the files below a folder; the names of what was written."""
        written = {**self.files, _ORIGINS: "".join(f"{k}\t{v}\n" for k, v in self.folders.items()).encode()}
        for name, content in written.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return list(written)

    @classmethod
    def load(cls, folder: Path) -> OwnSources:
        """What :meth:`save` wrote; nothing where it did not."""
        if not (folder / _ORIGINS).is_file():
            return cls({}, {})
        lines = (folder / _ORIGINS).read_text(encoding="utf-8").splitlines()
        folders = dict(line.split("\t", 1) for line in lines)
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.py"))}
        return cls(files, folders)

    def restore(self, folder: Path) -> None:
        """Install what was kept in a folder, and say where the originals have changed since.

        Parameters
        ----------
        folder : Path
            Where the files were kept, for the message.
        """
        changed = [path for path, content in self.files.items() if self._original(path) not in (None, content)]
        if changed:
            logging.getLogger(__name__).warning(
                "%s changed in %s since the study was started: its own copy in %s is used",
                ", ".join(changed),
                ", ".join(sorted({self.folders[_top(_module_of(path))] for path in changed})),
                folder,
            )
        self.install()

    def _original(self, path: str) -> bytes | None:
        try:
            return (Path(self.folders[_top(_module_of(path))]) / path).read_bytes()
        except OSError:
            return None


def installed_sources() -> OwnSources:
    """The sources that are installed in this process."""
    return _installed


def find_sources(modules: Iterable[str], folders: Sequence[Path] = ()) -> OwnSources:
    """The sources of own modules and of what they import beside themselves, installed.

    Parameters
    ----------
    modules : iterable of str
        Names, such as ``mine.losses``; those that Python does not find, or that are installed, are left out.
    folders : sequence of Path
        Where to look before Python's path; the working directory comes last.

    Raises
    ------
    ConfigError
        If a file cannot be read.
    """
    wanted = list(dict.fromkeys(modules))
    found = _collected(wanted, folders)
    _forget({_top(name) for name in wanted} - found.folders.keys())
    found.install()
    return found


def _forget(tops: Set[str]) -> None:
    """Do not import from here any more what is not where it was."""
    global _installed
    stale = {name for name in _installed.modules() if _top(name) in tops}
    for name in stale:
        sys.modules.pop(name, None)
    files = {path: content for path, content in _installed.files.items() if _module_of(path) not in stale}
    _installed = OwnSources(files, {top: place for top, place in _installed.folders.items() if top not in tops})


def _collected(modules: Sequence[str], folders: Sequence[Path]) -> OwnSources:
    search = [*map(str, folders), *(place or os.getcwd() for place in sys.path), os.getcwd()]
    files: dict[str, bytes] = {}
    origins: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        top = _top(name)
        folder = Path(origins[top]) if top in origins else _folder_of(top, search)
        if folder is None:
            continue
        for path in _paths_of(name, folder):
            if path in files:
                continue
            try:
                files[path] = (folder / path).read_bytes()
                imported = list(_imports(files[path], _module_of(path), path.endswith("__init__.py")))
            except OSError as error:
                raise ConfigError(f"{folder / path} cannot be read: {error.strerror}") from error
            except (SyntaxError, ValueError):  # which its import will tell of
                imported = []
            origins[top] = str(folder)
            waiting += [other for other in imported if _paths_of(other, folder)]
    return OwnSources(files, origins)


def _folder_of(top: str, search: Sequence[str]) -> Path | None:
    """The folder of the search that has a module of the user's own; None for what is installed or not there."""
    if top in _OURS or top in sys.builtin_module_names:
        return None
    for place in dict.fromkeys(search):
        folder = Path(place)
        if (folder / f"{top}.py").is_file() or (folder / top).is_dir():
            spec = importlib.machinery.PathFinder.find_spec(top, [place])
            if spec is None or (spec.origin is not None and not spec.origin.endswith(".py")):
                return None
            resolved = folder.resolve()
            return None if any(resolved.is_relative_to(shared) for shared in _SHARED) else resolved
    return None


def _paths_of(name: str, folder: Path) -> list[str]:
    """Files of a module and of the packages around it, relative to a folder; nothing where it is not there."""
    parts = name.split(".")
    found = []
    for depth in range(1, len(parts) + 1):
        place = Path(*parts[:depth])
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if (folder / path).is_file():
                found.append(path.as_posix())
                break
    return found


def _imports(source: bytes, module: str, is_package: bool) -> Iterator[str]:
    """Names of all modules that a source may import."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: len(module.split(".")) - node.level + is_package] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            if base:
                yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def _module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_current(module: ModuleType, file: Path, content: bytes) -> bool:
    """Whether a module that was imported has this content, as far as one can tell."""
    loader = getattr(module, "__loader__", None)
    if isinstance(loader, _KeptLoader):
        return loader.content == content
    origin = getattr(module, "__file__", None)
    if origin is None:  # a package without a file of its own
        return True
    try:
        same = Path(origin).resolve() == file.resolve() and file.read_bytes() == content
        return same and file.stat().st_mtime < _BEGUN
    except OSError:
        return False


class _KeptLoader(importlib.abc.SourceLoader):
    """Runs a module from content that was kept."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path, self.content = path, content

    def get_filename(self, fullname: str) -> str:
        return self.path

    def get_data(self, path: str | bytes) -> bytes:
        if str(path) == self.path:
            return self.content
        return Path(os.fsdecode(path)).read_bytes()


class _KeptFinder(importlib.abc.MetaPathFinder):
    """Finds the modules that are installed."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        found = _installed.modules().get(fullname)
        if found is not None:
            origin = str(Path(_installed.folders[_top(fullname)]) / found)
            loader = _KeptLoader(origin, _installed.files[found])
            is_package = found.endswith("/__init__.py")
            folder = [str(Path(origin).parent)] if is_package else None
            return importlib.util.spec_from_file_location(
                fullname, origin, loader=loader, submodule_search_locations=folder
            )
        if any(name.startswith(f"{fullname}.") for name in _installed.modules()):
            spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(Path(_installed.folders[_top(fullname)]) / fullname)]
            return spec
        return None


_installed = OwnSources({}, {})
_FINDER = _KeptFinder()
