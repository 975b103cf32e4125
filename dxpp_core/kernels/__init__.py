"""Compiled functions; importing this package compiles nothing and does not import numba."""
