"""Seeds that change nothing: trainings that differ in their seed alone and draw no random number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from dxpp_core.errors import QPError
from portfolio_dfl.errors import PortfolioError
from portfolio_dfl.training.fitting import fit_by_gradient
from portfolio_dfl.training.reproducible import reproducible
from portfolio_dfl.training.window import WindowTask

__all__ = ["are_replicates"]

# Samples of the trial step: as many as a deviation over them needs.
_TRIED = 3


def are_replicates(task: WindowTask, seed: int) -> bool:
    """Whether the task has the same outcome under another seed, because nothing random enters it.

    Found by trying: the model starts from the same numbers under both seeds, and a training step on a few samples
    draws none (no dropout, no perturbations, no loss that samples). A step that fails leaves the question open, and
    the answer is no.
    """
    task = replace(task, predictor=task.predictor.member())
    with reproducible(seed):
        other = task.build_model().state_dict()
    with reproducible(task.seed):
        model = task.build_model()
        mine = model.state_dict()
        if any(not torch.equal(value, other[name]) for name, value in mine.items()):
            return False
        if task.settings.method != "gradient":
            return True
        before = _drawn_so_far()
        quick = replace(task.settings, epochs=1, validation_samples=0, batch_size=None)
        try:
            fit_by_gradient(model, task.samples.newest(_TRIED), None, quick)
        except (PortfolioError, QPError, np.linalg.LinAlgError):
            return False
        return _drawn_so_far() == before


def _drawn_so_far() -> tuple[bytes, bytes, int]:
    """Where the global generators stand."""
    _name, keys, position, *_ = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().numpy().tobytes(), np.asarray(keys).tobytes(), int(position)
