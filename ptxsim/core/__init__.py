"""Functional simulation: launches, clusters, CTAs, warps, schedules, and run results."""
