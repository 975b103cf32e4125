"""The one place that makes a Lightning Trainer: on one CPU in one process, whatever the environment says.

Lightning takes every argument that is not given from a variable ``PL_TRAINER_…``, and its place in a cluster from the
variables of a job (Slurm, torchrun, LSF, MPI). Such variables are about something else: a study that runs inside a job
is no part of it. So every argument is given here, and the cluster is one that has this process only.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
from lightning.fabric.plugins import ClusterEnvironment
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import SingleDeviceStrategy

from portfolio_dfl.execution.process import ignored_warnings, log_level

__all__ = ["fit_quietly"]


class _OneProcess(ClusterEnvironment):
    """A cluster of this process alone; Lightning's own reads ``LOCAL_RANK``, ``MASTER_PORT`` and others."""

    creates_processes_externally = True  # nothing is left to launch
    main_address = "127.0.0.1"
    main_port = 0

    @staticmethod
    def detect() -> bool:
        return False

    def world_size(self) -> int:
        return 1

    def set_world_size(self, size: int) -> None:
        """Stay one."""

    def global_rank(self) -> int:
        return 0

    def set_global_rank(self, rank: int) -> None:
        """Stay the first."""

    def local_rank(self) -> int:
        return 0

    def node_rank(self) -> int:
        return 0


def fit_quietly(
    module: pl.LightningModule,
    *data: Any,
    epochs: int,
    callbacks: Sequence[Callback] = (),
    gradient_clip: float | None = None,
    validate: bool = True,
    **named_data: Any,
) -> None:
    """Fit with a fresh Trainer that writes nothing and says nothing.

    Parameters
    ----------
    module : LightningModule
    *data, **named_data
        Loaders, or ``datamodule=``, as ``Trainer.fit`` takes them.
    epochs : int
    callbacks : sequence of Callback
    gradient_clip : float or None
        Largest Euclidean norm of a step's gradient.
    validate : bool
        Whether there are validation batches.
    """
    # Lightning's advice on devices, loaders and loggers would be repeated for every window.
    with ignored_warnings(module=r"lightning\."), log_level("lightning.pytorch", logging.ERROR):
        trainer = pl.Trainer(
            accelerator="cpu",
            strategy=SingleDeviceStrategy(device="cpu"),
            devices=1,
            num_nodes=1,
            precision="32-true",  # that is: as the module has it
            logger=False,
            callbacks=list(callbacks),
            fast_dev_run=False,
            max_epochs=epochs,
            min_epochs=None,
            max_steps=-1,
            min_steps=None,
            max_time=None,
            limit_train_batches=1.0,
            limit_val_batches=1.0 if validate else 0,
            limit_test_batches=1.0,
            limit_predict_batches=1.0,
            overfit_batches=0.0,
            val_check_interval=1.0,
            check_val_every_n_epoch=1,
            num_sanity_val_steps=0,
            log_every_n_steps=50,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            accumulate_grad_batches=1,
            gradient_clip_val=gradient_clip,
            gradient_clip_algorithm="norm",
            deterministic=None,  # `reproducible` has set it, and a value here would be for ever
            benchmark=None,
            inference_mode=True,
            use_distributed_sampler=False,
            profiler=None,
            detect_anomaly=False,
            barebones=False,
            plugins=[_OneProcess()],
            sync_batchnorm=False,
            reload_dataloaders_every_n_epochs=0,
            default_root_dir=tempfile.gettempdir(),  # nothing is written; the working directory may be gone
            enable_autolog_hparams=False,
            model_registry=None,
        )
        trainer.fit(module, *data, **named_data)
