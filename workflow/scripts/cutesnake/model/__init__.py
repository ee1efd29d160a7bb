"""Typed facts: contracts, targets, stages, records."""
