"""Scaled matrices with their products and the factor of their penalty Hessian: dense or sparse behind one surface."""

from .base import Factor, System
from .dense import DenseSystem
from .sparse import SparseSystem

__all__ = ["DenseSystem", "Factor", "SparseSystem", "System"]
