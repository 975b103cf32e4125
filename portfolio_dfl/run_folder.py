"""What a study leaves on disk while it runs, so that it can go on after any interruption.

A run folder holds the configuration, the prices that were used, and one file a trained window, named by the
digest of everything that decides the window's outcome. Files appear whole or not at all.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from portfolio_dfl.config import StudyConfig
from portfolio_dfl.errors import TrackingError

if TYPE_CHECKING:
    from portfolio_dfl.training.window import TrainedWindow

__all__ = ["RunFolder", "read_window"]

_CONFIG, _PRICES, _FLAGS, _WINDOWS = "config.yaml", "prices.parquet", "data_flags.parquet", "windows"


@dataclass(frozen=True)
class RunFolder:
    """One study's folder; make it with :meth:`create` or find it with :meth:`open`."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the run, unique in its folder."""
        return self.path.name

    @classmethod
    def create(cls, config: StudyConfig, prices: pd.DataFrame, flags: pd.DataFrame) -> RunFolder:
        """Make a new folder under ``tracking.folder`` with what a resumption needs."""
        root = config.tracking.folder
        name = f"{config.name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        draft = root / f".{name}.partial"
        (draft / _WINDOWS).mkdir(parents=True)
        (draft / _CONFIG).write_text(config.to_yaml(), encoding="utf-8")
        prices.to_parquet(draft / _PRICES)
        flags.to_parquet(draft / _FLAGS)
        draft.rename(root / name)
        return cls(root / name)

    @classmethod
    def open(cls, run: str | os.PathLike[str], root: str | os.PathLike[str] = "runs") -> RunFolder:
        """Find a run by its path or by its name under ``root``.

        Raises
        ------
        TrackingError
            If there is none, naming the runs that there are.
        """
        for candidate in (Path(run), Path(root) / run):
            if (candidate / _CONFIG).is_file():
                return cls(candidate.resolve() if candidate.name in ("", ".", "..") else candidate)
        found = sorted(path.parent.name for path in Path(root).glob(f"*/{_CONFIG}"))
        known = f"there are {', '.join(found[-5:])}" if found else "there are none"
        raise TrackingError(f"no run {run} here or under {root}; {known}")

    def config(self) -> StudyConfig:
        """The configuration the run was started with."""
        return StudyConfig.from_yaml((self.path / _CONFIG).read_text(encoding="utf-8"))

    def prices(self) -> pd.DataFrame:
        """The clean prices the run was started with."""
        return pd.read_parquet(self.path / _PRICES)

    def flags(self) -> pd.DataFrame:
        """What was found in the data."""
        return pd.read_parquet(self.path / _FLAGS)

    def save_window(self, window: TrainedWindow) -> None:
        """Keep a finished window."""
        import torch

        plain = _plain(window)
        self._write(f"{_WINDOWS}/{window.key}.pt", lambda path: torch.save(plain, path))

    def window_file(self, window: TrainedWindow) -> Path:
        """Where a finished window is kept."""
        return self.path / _WINDOWS / f"{window.key}.pt"

    def load_windows(self) -> dict[str, TrainedWindow]:
        """Finished windows by key."""
        windows = [read_window(file) for file in sorted((self.path / _WINDOWS).glob("[!.]*.pt"))]
        return {window.key: window for window in windows}

    def save_frame(self, name: str, frame: pd.DataFrame) -> Path:
        """Write a frame as Parquet; ``name`` may name a folder too."""
        return self._write(f"{name}.parquet", frame.to_parquet)

    def read_frame(self, name: str) -> pd.DataFrame:
        """Read a frame that :meth:`save_frame` wrote."""
        return pd.read_parquet(self.path / f"{name}.parquet")

    def save_text(self, name: str, text: str) -> Path:
        """Write a text file."""
        return self._write(name, lambda path: path.write_text(text, encoding="utf-8"))

    def clear_partial(self) -> None:
        """Remove what an interrupted write left behind."""
        for leftover in self.path.rglob(".*.partial"):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def _write(self, name: str, write: Callable[[Path], object]) -> Path:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.partial")
        write(partial)
        os.replace(partial, target)
        return target


def read_window(file: Path) -> TrainedWindow:
    """Read one file of a run's ``windows`` folder."""
    import torch

    return _restored(torch.load(file, weights_only=True))


def _plain(window: TrainedWindow) -> dict[str, Any]:
    """Plain values and tensors only: what weights-only loading accepts."""
    values = {name: getattr(window, name) for name in window.__dataclass_fields__}
    for name in ("date", "first_sample", "last_sample", "last_label_end"):
        values[name] = values[name].isoformat()
    values["health"] = asdict(window.health)
    return values


def _restored(values: dict[str, Any]) -> TrainedWindow:
    from portfolio_dfl.training.health import GradientHealth
    from portfolio_dfl.training.window import TrainedWindow

    for name in ("date", "first_sample", "last_sample", "last_label_end"):
        values[name] = pd.Timestamp(values[name])
    values["health"] = GradientHealth(**values["health"])
    return TrainedWindow(**values)
