"""What the layer costs beside its solver and beside other layers: ``python -m dxpp_core.benchmark``."""

from .peers import PEERS, Peer, PeerLayer, Program, find_peers, peer_layer

__all__ = ["PEERS", "Peer", "PeerLayer", "Program", "find_peers", "peer_layer"]
