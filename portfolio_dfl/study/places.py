"""Where a study's files lie, whatever folder one stands in: absolute from its start, and beside its run once moved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.local_sources import IN_MEMORY
from portfolio_dfl.errors import ConfigError
from portfolio_dfl.strategies.groups import with_columns_read
from portfolio_dfl.tracking.places import holds_run, holds_store

__all__ = ["at_home", "located"]

_SQLITE = "sqlite:///"


def located(config: StudyConfig) -> StudyConfig:
    """The configuration with absolute paths: those that are relative start where one stands now.

    Files that say what groups tickers are in, or what numbers they have, are read: a study can go on without them.

    Raises
    ------
    ConfigError
        If a path has letters that the file system of this machine does not know.
    """
    from portfolio_dfl.data.sources import locate_source

    folder, source, uri = config.tracking.folder, config.data.source, config.tracking.uri
    spreads, members = config.costs.spreads, config.data.members
    try:
        os.fsencode(os.path.join(folder, config.name, config.tracking.experiment or ""))
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{config.name} in {folder} cannot be the name of a file here, where names are in {error.encoding}; use "
            "other letters in name and tracking"
        ) from error
    place = locate_source(source)
    return _changed(
        with_columns_read(config),
        folder=_absolute(folder),
        source=source if place is None else os.fspath(_absolute(place)),
        uri=uri if uri is None else _absolute_uri(uri),
        spreads=spreads if spreads in (None, IN_MEMORY) else os.fspath(_absolute(Path(spreads))),
        members=members if members in (None, IN_MEMORY) else os.fspath(_absolute(Path(members))),
        features={
            name: None if section.source is None else os.fspath(_absolute(Path(section.source)))
            for name, section in config.features.items()
        },
    )


def at_home(config: StudyConfig, folder: Path, run: str | None = None) -> StudyConfig:
    """The configuration that a run was started with, as seen from where the run lies now.

    Parameters
    ----------
    config : StudyConfig
        As recorded; before paths were recorded whole, they were relative to where the study was started.
    folder : Path
        The folder of runs that it lies in now.
    run : str, optional
        Name of the run in its store. The store is the one beside the run, or else the one it was started with.
    """
    recorded = config.tracking.folder
    left = recorded.is_absolute() and run is not None and not (recorded / run).exists()  # or this is a copy
    homes = [folder, recorded] if left else [folder]
    holding = [] if run is None else [home for home in homes if holds_run(home, run)]
    existing = [home for home in homes if holds_store(home)]
    return _changed(
        config,
        folder=next(iter([*holding, *existing, folder])),
        source=_found(config.data.source, recorded, folder),
        uri=config.tracking.uri,
        spreads=None if config.costs.spreads is None else _found(config.costs.spreads, recorded, folder),
        members=None if config.data.members is None else _found(config.data.members, recorded, folder),
        features={
            name: None if section.source is None else _found(section.source, recorded, folder)
            for name, section in config.features.items()
        },
    )


def _found(source: str, recorded: Path, folder: Path) -> str:
    """A source where it is, or where it is once it moved along with the folder of runs; else as it was recorded."""
    if Path(source).is_absolute():
        if Path(source).exists() or not recorded.is_absolute():
            return source
        candidate = folder / os.path.relpath(source, recorded)
    else:
        candidate = _start(recorded, folder) / source
    return os.path.normpath(candidate) if candidate.exists() else source


def _start(recorded: Path, folder: Path) -> Path:
    """Where a study was started whose folder of runs was recorded as a relative path."""
    parts = Path(os.path.normpath(recorded)).parts
    if not parts or folder.parts[-len(parts) :] != parts:
        return Path.cwd()
    return Path(*folder.parts[: -len(parts)])


def _changed(
    config: StudyConfig,
    *,
    folder: Path,
    source: str,
    uri: str | None,
    spreads: str | None,
    members: str | None,
    features: Mapping[str, str | None],
) -> StudyConfig:
    return config.model_copy(
        update={
            "tracking": config.tracking.model_copy(update={"folder": folder, "uri": uri}),
            "data": config.data.model_copy(update={"source": source, "members": members}),
            "costs": config.costs.model_copy(update={"spreads": spreads}),
            "features": {
                name: section.model_copy(update={"source": features[name]}) for name, section in config.features.items()
            },
        }
    )


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path.expanduser()))


def _absolute_uri(uri: str) -> str:
    """An address of MLflow's; of a SQLite file, its path is absolute."""
    path, mark, query = uri.removeprefix(_SQLITE).partition("?")
    if not uri.startswith(_SQLITE) or not path or path.startswith(("/", ":", "file:")):
        return uri
    return f"{_SQLITE}{_absolute(Path(path))}{mark}{query}"
