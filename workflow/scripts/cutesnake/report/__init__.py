"""Report stage: render all records of a run as self-contained HTML pages."""
