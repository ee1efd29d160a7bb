"""Example page of a baseline for the site."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutesnake.analysis.change import baseline
from cutesnake.analysis.change.change import write_change
from cutesnake.analysis.evidence.gather import load_evidence
from cutesnake.report.files import report_files
from cutesnake.runtime.job import Files, listed

BASELINE = "2ecdf24f:recorded/nvidia_h200"  # before the last version of cute_sm90
NAME = "changes_example.html"


def write_example(
    files: Mapping[str, Files], config: Mapping[str, Any], sweep: Mapping[str, Any], front: str, folder: Path
) -> str | None:
    """Write the page into `folder`; return why not, for example without git's history.

    files, config, sweep, front: as for `report_files`. The page has the recorded times of `files` and of BASELINE.
    """
    plan, roofline = listed(files["plan"])[0], listed(files["roofline"])[0]
    evidence = load_evidence(plan, [], roofline, listed(files["recorded"]))
    with tempfile.TemporaryDirectory() as scratch:
        record = f"{scratch}/change.json"
        try:
            place = baseline.locate(BASELINE)
            write_change(evidence, place, baseline.read(place, evidence.operator), record, f"{scratch}/change.csv")
        except baseline.BaselineError as error:
            return str(error)
        report_files({**files, "changes": [record]}, config, sweep, front, str(folder / NAME))
    return None
