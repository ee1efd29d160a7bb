"""The functional simulation: launches, clusters, CTAs, warps, schedules, and what a run reports."""
