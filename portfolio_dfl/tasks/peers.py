"""Layers of others that tasks are timed against, by name (:mod:`dxpp_core.benchmark`)."""

from __future__ import annotations

from collections.abc import Sequence

from dxpp_core import benchmark
from dxpp_core.benchmark import PEERS, Peer, PeerLayer, Program, peer_layer
from dxpp_core.errors import ProblemError
from portfolio_dfl.errors import ConfigError

__all__ = ["PEERS", "Peer", "PeerLayer", "Program", "find_peers", "peer_layer"]


def find_peers(names: Sequence[str] | None = None) -> tuple[list[str], list[str]]:
    """Peers that are installed, and those that are not, out of ``names`` (default: all).

    Raises
    ------
    ConfigError
        If a name is not that of a peer.
    """
    try:
        return benchmark.find_peers(names)
    except ProblemError as error:
        raise ConfigError(str(error)) from None
