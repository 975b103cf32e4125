"""Trained windows as files: plain values and tensors only, which is what weights-only loading accepts."""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch

from portfolio_dfl.training.health import GradientHealth
from portfolio_dfl.training.window import TrainedWindow

__all__ = ["read_window", "window_content"]

_DATES = ("date", "first_sample", "last_sample", "last_label_end")


def window_content(window: TrainedWindow) -> bytes:
    """What :func:`read_window` reads back from a file."""
    values = {name: getattr(window, name) for name in window.__dataclass_fields__}
    values |= {name: values[name].isoformat() for name in _DATES}
    values["health"] = asdict(window.health)
    content = io.BytesIO()
    torch.save(values, content)
    return content.getvalue()


def read_window(file: Path) -> TrainedWindow:
    """Read a trained window; the errors of :func:`torch.load` where the file is damaged."""
    values = torch.load(file, weights_only=True)
    values |= {name: pd.Timestamp(values[name]) for name in _DATES}
    values["health"] = GradientHealth(**values["health"])
    return TrainedWindow(**values)
