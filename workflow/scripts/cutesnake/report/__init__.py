"""Report stage: every record of a run in one HTML page."""

from cutesnake.report.page import Contents, render, write_report

__all__ = ["Contents", "render", "write_report"]
