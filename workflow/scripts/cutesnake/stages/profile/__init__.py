"""Profiles of a case with nsys and ncu."""
