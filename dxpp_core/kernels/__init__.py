"""Compiled functions for small dense programs; importing this package compiles nothing and does not import numba."""
