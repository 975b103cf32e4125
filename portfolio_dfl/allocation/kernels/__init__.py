"""Compiled functions of the native solver; importing this package compiles nothing and does not import numba."""
