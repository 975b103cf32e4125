"""Validated, broadcast data; units; what kind of program it is."""
