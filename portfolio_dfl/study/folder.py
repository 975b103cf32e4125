"""What a study leaves on disk while it runs, so that it can go on after any interruption.

A run folder holds the configuration, the prices that were used, and one file a trained window, named by the
digest of everything that decides the window's outcome. Files appear whole or not at all; what is damaged later is
noticed, for every file's own digest is kept too.
"""

from __future__ import annotations

import io
import json
import logging
import os
import pickle
import secrets
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from portfolio_dfl.config.study import StudyConfig
from portfolio_dfl.data.parquet import parquet_bytes, read_parquet
from portfolio_dfl.errors import TrackingError
from portfolio_dfl.execution.digests import SUMS, digest, sum_line
from portfolio_dfl.execution.own_sources import OwnSources
from portfolio_dfl.strategies.features import read_tables, table_files, write_tables
from portfolio_dfl.study.places import at_home
from portfolio_dfl.tracking.places import StoreError

if TYPE_CHECKING:
    from portfolio_dfl.data.features import FeatureSet, FeatureTable
    from portfolio_dfl.data.panel import PricePanel
    from portfolio_dfl.training.window import TrainedWindow

__all__ = ["RunFolder"]

_CONFIG, _PRICES, _FLAGS, _WINDOWS = "config.yaml", "prices.parquet", "data_flags.parquet", "windows"
_NAME, _FACTS, _PREDICTOR = "name.txt", "facts.json", "predictor.txt"
_SPREADS = "spreads.parquet"  # only where costs have them
_MEMBERS = "members.parquet"  # only where they change
_START = (_CONFIG, _PRICES, _FLAGS)
_PARTS, _POLICIES = "parts", "policies.pkl"
_LOCK = ".lock"


@dataclass(frozen=True)
class RunFolder:
    """One study's folder; make it with :meth:`create` or find it with :meth:`open`."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the run, unique in its folder."""
        return self.path.name

    @property
    def recorded_name(self) -> str:
        """Name that the run was started with and has in its store, whatever its folder is called now.

        A copy beside the run that it was made from is a run of its own.
        """
        started = self.name
        with suppress(OSError, ValueError, KeyError):
            if (self.path / _NAME).is_file():
                started = (self.path / _NAME).read_text(encoding="utf-8").strip()
            else:  # as runs of before have it, once they have finished
                started = str(json.loads((self.path / _FACTS).read_text(encoding="utf-8"))["run"])
        return self.name if (self.path.parent / started).is_dir() else started

    @property
    def reference(self) -> str:
        """What the command line finds the run by from here, without being told its folder of runs."""
        here = self.path.parent == Path("runs").resolve()
        return shlex.quote(self.name if here else str(self.path))

    @classmethod
    def create(
        cls,
        config: StudyConfig,
        panel: PricePanel,
        *,
        predictor: Path | None = None,
        spreads: pd.DataFrame | None = None,
        features: FeatureSet | None = None,
        sources: OwnSources | None = None,
        policies: Mapping[str, bytes] | None = None,
    ) -> RunFolder:
        """Make a new folder under ``tracking.folder`` with what a resumption needs.

        Parameters
        ----------
        config : StudyConfig
        panel : PricePanel
            Clean prices, what was found in them, and who is a member when if that changes.
        predictor : Path, optional
            The folder that a predictor of the user's own was imported from.
        spreads : DataFrame, optional
            Bid-ask spreads that trades pay.
        features : FeatureSet, optional
            What predictors see beside returns, of which the tables are kept.
        sources : OwnSources, optional
            Of the user's own parts.
        policies : mapping of str to bytes, optional
            Policies that were given in Python.
        """
        from portfolio_dfl.data.member_panel import MemberPanel
        from portfolio_dfl.data.members import spell_rows

        root = config.tracking.folder.resolve()
        name = f"{config.name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        draft = cls(root / f".{name}.partial")
        draft._write(_CONFIG, config.to_yaml().encode())
        draft._write(_NAME, f"{name}\n".encode())
        draft._write(_PRICES, parquet_bytes(panel.prices))
        draft._write(_FLAGS, parquet_bytes(panel.report.to_frame()))
        if isinstance(panel, MemberPanel):
            draft._write(_MEMBERS, parquet_bytes(spell_rows(panel.spells)))
        if predictor is not None:
            draft._write(_PREDICTOR, f"{predictor}\n".encode())
        if spreads is not None:
            draft._write(_SPREADS, parquet_bytes(spreads))
        write_tables(draft.path, features)
        if sources:
            sources.save(draft.path / _PARTS)
        if policies:
            draft._write(_POLICIES, pickle.dumps(dict(policies)))
        draft.seal()
        (draft.path / _WINDOWS).mkdir()
        draft.path.rename(root / name)
        return cls(root / name)

    @classmethod
    def open(cls, run: str | os.PathLike[str], root: str | os.PathLike[str] = "runs") -> RunFolder:
        """Find a run by its path, or by its name under ``root`` or a beginning of it that no other run has.

        Raises
        ------
        TrackingError
            If there is none, or several begin so, naming the runs that there are; or if what it was started with has
            changed.
        """
        found = sorted(path.parent.name for path in Path(root).glob(f"[!.]*/{_CONFIG}"))
        alike = [name for name in found if name.startswith(str(run))] if str(run) else []
        for candidate in (Path(run), Path(root) / run, *(Path(root) / name for name in alike if len(alike) == 1)):
            try:
                here = (candidate / _CONFIG).is_file()
            except OSError as error:  # as for a name that is too long
                raise TrackingError(f"{str(candidate)[:80]} is no run: {error.strerror}") from error
            if here:
                folder = cls(candidate.resolve())
                folder._verify()
                return folder
        if alike:
            raise TrackingError(f"{len(alike)} runs under {root} begin with {run}: {', '.join(alike[-5:])}; name one")
        known = f"there are {', '.join(found[-5:])}" if found else "there are none"
        raise TrackingError(f"no run {run} here or under {root}; {known}")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from working on the run, and remove what an interrupted write left behind.

        Raises
        ------
        TrackingError
            If another process is working on it.
        """
        from filelock import FileLock, Timeout

        try:
            lock = FileLock(self.path / _LOCK, timeout=0).acquire()
        except Timeout as error:
            raise TrackingError(f"another process is working on run {self.name}; wait for it or stop it") from error
        with lock:
            for leftover in self.path.rglob(".*.partial"):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
            yield

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Tell of a predictor that is not found where it was when the study was started."""
        from portfolio_dfl.forecasting.build import PredictorImportError

        try:
            yield
        except PredictorImportError as error:
            try:
                place = (self.path / _PREDICTOR).read_text(encoding="utf-8").strip()
            except OSError:  # as of runs of before
                raise error from None
            raise PredictorImportError(f"{error}; it was {place} when the study was started") from error

    def config(self) -> StudyConfig:
        """The configuration the run was started with; its paths lead to where the run, store and source are now."""
        return at_home(self.recorded_config(), self.path.parent, self.recorded_name)

    def recorded_config(self) -> StudyConfig:
        """The configuration the run was started with, word for word."""
        return StudyConfig.from_yaml((self.path / _CONFIG).read_text(encoding="utf-8"))

    def prices(self) -> pd.DataFrame:
        """The clean prices the run was started with."""
        return read_parquet(self.path / _PRICES)

    def panel(self) -> PricePanel:
        """The clean prices the run was started with, and who was a member when if that changed.

        Raises
        ------
        TrackingError
            If the run was started with members and they are gone.
        """
        from portfolio_dfl.data.member_panel import MemberPanel
        from portfolio_dfl.data.members import rows_to_spells
        from portfolio_dfl.data.panel import PricePanel

        if self.recorded_config().data.members is None:
            return PricePanel(self.prices())
        file = self.path / _MEMBERS
        if not file.is_file():
            raise TrackingError(f"run {self.name} is not complete: {_MEMBERS} is missing; start the study again")
        return MemberPanel(self.prices(), spells=rows_to_spells(read_parquet(file)))

    def tables(self) -> dict[str, FeatureTable]:
        """The tables of features that the run was started with, by name.

        Raises
        ------
        TrackingError
            If one is gone.
        """
        found = read_tables(self.path)
        sections = self.recorded_config().features if any(self.path.glob("features")) else {}
        lacking = [
            name
            for name, section in sections.items()
            if section.builtin is None and section.function is None and name not in found
        ]
        if lacking:
            raise TrackingError(
                f"run {self.name} is not complete: features {', '.join(lacking)} are missing; start the study again"
            )
        return dict(found)

    def spreads(self) -> pd.DataFrame | None:
        """The bid-ask spreads the run was started with; None where its costs have none.

        Raises
        ------
        TrackingError
            If the run was started with some and they are gone.
        """
        file = self.path / _SPREADS
        if file.is_file():
            return read_parquet(file)
        if self.recorded_config().costs.spreads is not None:
            raise TrackingError(f"run {self.name} is not complete: {_SPREADS} is missing; start the study again")
        return None

    def flags(self) -> pd.DataFrame:
        """What was found in the data."""
        return read_parquet(self.path / _FLAGS)

    @property
    def parts(self) -> Path:
        """Where the sources of the user's own parts are kept."""
        return self.path / _PARTS

    def sources(self) -> OwnSources:
        """Sources of the user's own parts that the run was started with."""
        return OwnSources.load(self.parts)

    def policies(self) -> dict[str, bytes]:
        """Policies that the run was given in Python; pickled, they are not looked into here."""
        file = self.path / _POLICIES
        return dict(pickle.loads(file.read_bytes())) if file.is_file() else {}

    def save_window(self, window: TrainedWindow) -> None:
        """Keep a finished window."""
        from portfolio_dfl.training.window_files import window_content  # torch, which reading a result needs not

        content = window_content(window)
        self._write(f"{_WINDOWS}/{window.key}.{digest(content)}.pt", content)

    def window_file(self, window: TrainedWindow) -> Path:
        """Where a finished window is kept."""
        return next((self.path / _WINDOWS).glob(f"{window.key}.*.pt"))

    def load_windows(self) -> dict[str, TrainedWindow]:
        """Finished windows by key; a damaged file is removed with a warning, as if its window had not finished."""
        from portfolio_dfl.training.window_files import read_window

        windows = {}
        for file in sorted((self.path / _WINDOWS).glob("[!.]*.pt")):
            key, _, kept = file.stem.partition(".")
            if digest(file.read_bytes()) == kept:
                windows[key] = read_window(file)
            else:
                logging.getLogger(__name__).warning("%s is damaged: its window is trained again", file)
                file.unlink()
        return windows

    def save_frame(self, name: str, frame: pd.DataFrame) -> Path:
        """Write a frame as Parquet; ``name`` may name a folder too."""
        return self._write(f"{name}.parquet", parquet_bytes(frame))

    def read_frame(self, name: str) -> pd.DataFrame:
        """Read a frame that :meth:`save_frame` wrote.

        Raises
        ------
        TrackingError
            If the file is missing or damaged.
        """
        return read_parquet(io.BytesIO(self._sealed(f"{name}.parquet")))

    def save_text(self, name: str, text: str) -> Path:
        """Write a text file."""
        return self._write(name, text.encode())

    def read_text(self, name: str) -> str:
        """Read a text file that :meth:`save_text` wrote; errors as of :meth:`read_frame`."""
        return self._sealed(name).decode()

    def seal(self) -> None:
        """Keep the digests of all that was written, so that damage is noticed when it is read."""
        written = [path for kind in ("*.json", "[!.]*/**/*.parquet") for path in sorted(self.path.glob(kind))]
        names = [*self._started_with, *(path.relative_to(self.path).as_posix() for path in written)]
        self._write(SUMS, "".join(sum_line(self.path, name) for name in names).encode())

    @property
    def _started_with(self) -> list[str]:
        """Names of the files that a run is started with."""
        own = [path for path in sorted(self.parts.rglob("*.py")) if path.is_file()]
        optional = [self.path / name for name in (_SPREADS, _MEMBERS, _POLICIES)]
        given = [path for path in (*optional, *own) if path.is_file()]
        return [*_START, *table_files(self.path), *(path.relative_to(self.path).as_posix() for path in given)]

    def _sealed(self, name: str) -> bytes:
        try:
            if sum_line(self.path, name) in (self.path / SUMS).read_text(encoding="utf-8"):
                return (self.path / name).read_bytes()
            reason = "it is not what was written"
        except OSError as error:
            reason = str(error)
        raise TrackingError(
            f"{self.path / name} cannot be used: {reason}; `portfolio-dfl resume {shlex.quote(self.name)} "
            f"--folder {shlex.quote(str(self.path.parent))}` writes it again"
        )

    def _verify(self) -> None:
        """Make sure that what the run was started with is still that."""
        try:
            kept = (self.path / SUMS).read_text(encoding="utf-8")
            changed = [name for name in self._started_with if sum_line(self.path, name) not in kept]
        except (OSError, UnicodeDecodeError) as error:
            raise TrackingError(f"run {self.name} is not complete: {error}; start the study again") from error
        if changed:
            raise TrackingError(
                f"run {self.name} is not what it was started with: {', '.join(changed)} changed or damaged; "
                "a changed study is a new one: start it again"
            )

    def _write(self, name: str, content: bytes) -> Path:
        """Let a file appear with all its content, which outlasts a loss of power too."""
        target = self.path / name
        partial = target.with_name(f".{target.name}.partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        except OSError as error:
            with suppress(OSError):  # as where a file stands in the folder's place
                partial.unlink()
            reason = error.strerror or error
            raise StoreError(f"cannot write {target}: {reason}; what was written before is kept") from error
        return target
