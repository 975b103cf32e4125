"""Where a local store and its artifacts lie: names that are safe for files, and stores that were moved."""

from __future__ import annotations

import errno
import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

from portfolio_dfl.errors import TrackingError

__all__ = [
    "StoreError",
    "artifact_folder",
    "database_of",
    "holds_run",
    "holds_store",
    "keep_artifacts_beside",
    "refusal",
    "restored",
    "sqlite_uri",
    "written",
]

# What a full or failing disk answers, mostly without the name of the file.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)

_PLAIN = re.compile(r"\w[\w.-]{0,99}")
# Columns that hold addresses of artifacts, by table.
_ADDRESSES = {
    "runs": ("artifact_uri",),
    "logged_models": ("artifact_location",),
    "model_versions": ("source", "storage_location"),
}


_DEFAULT = """
UPDATE experiments SET artifact_location = ? WHERE experiment_id = 0 AND artifact_location NOT LIKE 'file:%'
AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.experiment_id = 0)
"""


class StoreError(TrackingError):
    """A place that was open did not take or give what it should: work that had begun can go on later."""


@contextmanager
def written(place: Path) -> Iterator[None]:
    """Name the place where a disk takes no more."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise StoreError(f"cannot write to {error.filename or place}: {error.strerror}") from error


def refusal(error: BaseException | None) -> str | None:
    """What a database itself said, in one line, where an error is made of that."""
    from sqlalchemy.exc import DBAPIError

    while error is not None:
        if isinstance(error, DBAPIError) and error.orig is not None:
            return str(error.orig).strip().partition("\n")[0]
        error = error.__cause__ or error.__context__
    return None


def restored(reason: object) -> str:
    """What helps a local store that cannot be opened for this reason."""
    if "disk" in str(reason):  # SQLite says: database or disk is full; disk I/O error
        return "make room on its disk, or choose another folder of runs"
    return "restore it, move it away for a new store, or choose another folder of runs"


def database_of(folder: Path) -> Path:
    """The local store of a folder of runs, and of one of its runs."""
    if (folder / "config.yaml").is_file() and not (folder / "mlflow.db").is_file():
        return folder.parent / "mlflow.db"
    return folder / "mlflow.db"


def sqlite_uri(file: Path) -> str:
    """Address of a SQLite file.

    Raises
    ------
    TrackingError
        If the path holds a question mark, where the address of a database would end.
    """
    if "?" in str(file):
        raise TrackingError(f"no database can lie at {file}: its path must not hold ?; choose another folder of runs")
    return f"sqlite:///{file}"


def artifact_folder(root: Path, experiment: str) -> Path:
    """Where the artifacts of an experiment lie: below ``root``, whatever its name."""
    if _PLAIN.fullmatch(experiment) and len(experiment.encode()) <= 200:
        return root / "artifacts" / experiment
    readable = re.sub(r"[^\w-]+", "_", experiment, flags=re.ASCII)[:50]
    digest = hashlib.sha256(experiment.encode()).hexdigest()[:8]
    return root / "artifacts" / f"{readable}-{digest}"


def holds_run(folder: Path, name: str) -> bool:
    """Whether the local store of a folder of runs has records of a run."""
    file = folder / "mlflow.db"
    if not file.is_file():
        return False
    try:
        with closing(sqlite3.connect(file, timeout=30.0)) as store:
            found = store.execute("SELECT 1 FROM tags WHERE key = 'run_folder' AND value = ? LIMIT 1", (name,))
            return found.fetchone() is not None
    except sqlite3.Error:  # who opens it next says why it is no store
        return False


def keep_artifacts_beside(database: Path) -> None:
    """Correct the addresses of artifacts in a store that was moved, or copied, together with them.

    MLflow records absolute addresses: without this, a moved store would write where it lay before.

    Raises
    ------
    TrackingError
        If the store cannot be written.
    """
    home = database.parent / "artifacts"
    with _reported(database), closing(sqlite3.connect(database, timeout=30.0)) as store:
        with store:  # an experiment of MLflow's own, below the folder that one stood in
            store.execute(_DEFAULT, ((home / "Default").as_uri(),))
        found = store.execute("SELECT experiment_id, artifact_location FROM experiments").fetchall()
        for identifier, location in found:
            base, mark, name = str(location).rpartition("/artifacts/")
            address = f"{home.as_uri()}/{name}"
            if not mark or not base.startswith("file:") or location == address:
                continue
            if not (home / unquote(name)).is_dir() and _path(location).exists():
                continue  # somebody chose that place for it
            with store:
                store.execute(
                    "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (address, identifier)
                )
                for table, columns in _ADDRESSES.items():
                    known = {row[1] for row in store.execute(f"PRAGMA table_info({table})")}
                    for column in known.intersection(columns):
                        store.execute(
                            f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                            (address, len(location) + 1, len(location) + 1, f"{location}/"),
                        )
    _forget_artifacts()


def _forget_artifacts() -> None:
    """Let MLflow ask anew where artifacts lie: it remembers that of a run for as long as the process lives."""
    from mlflow.tracking._tracking_service import utils

    remembered = getattr(utils, "_artifact_repos_cache", None)
    if remembered is not None:
        remembered.clear()


def _path(address: str) -> Path:
    return Path(unquote(urlparse(address).path))


@contextmanager
def _reported(database: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise TrackingError(f"MLflow cannot open {database}: {error}; {restored(error)}") from error


def holds_store(folder: Path) -> bool:
    """Whether the local MLflow store of a folder of runs lies in it."""
    return (folder / "mlflow.db").is_file()
