"""Write anatomy records of an operator's builds, and last their index."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutesnake.model import provenance, record
from cutesnake.model.case_id import CaseId
from cutesnake.model.targets import TARGETS
from cutesnake.stages.anatomy.record import anatomy_of

INDEX = "anatomy.json"
PART = 2  # clusters of a launch that are run where the problem is large: they do what the others do


def write_folder(
    operator: str, builds: Mapping[str, Mapping[str, Any]], results: Path | str, folder: Path | str
) -> None:
    """Write a record per build, below `folder`.

    builds: key of a build (operator/kernel/target/variant) -> how it is watched (planning/problems.py). Builds
    without code of their own (PyTorch's) have no record. Raises RecordError for a damaged build record.
    """
    entries, folder = [], Path(folder)
    for key, how in builds.items():
        build = Path(results, "compile", key)
        if not record.read("compile", build / "build.json").files:
            continue
        case = CaseId.parse(key)
        result = anatomy_of(
            build,
            how["workloads"],
            TARGETS[case.target].simulated_processors,
            most_clusters=PART if how["in_part"] else None,
            instead=how["instead"],
        )
        file = f"{case.kernel}/{case.target}/{case.variant}.json"
        record.write("anatomy", folder / file, result)
        entries.append({"kernel": case.kernel, "target": case.target, "variant": case.variant, "file": file})
    index = {"stage": "anatomy", "operator": operator, "builds": entries, "provenance": {}}
    files = provenance.digests([folder / entry["file"] for entry in entries], folder)
    record.write("anatomy_index", folder / INDEX, index, files=files)
