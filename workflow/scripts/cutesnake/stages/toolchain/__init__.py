"""Builds with other compilers: their environments, and one record per kernel and target."""
