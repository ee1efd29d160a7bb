"""Report stage: every record of a run in one HTML page."""
