"""Builds on a GPU machine that has neither DSL nor compiler."""
