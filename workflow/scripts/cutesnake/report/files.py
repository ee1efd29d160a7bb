"""Page of an operator from the files that its Snakemake rule names."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cutesnake.analysis.evidence.gather import load_evidence
from cutesnake.analysis.summary import read_summary
from cutesnake.analysis.verdict.verdicts import read_anatomy, verdicts
from cutesnake.model import record
from cutesnake.report.catalogue import write_placeholders
from cutesnake.report.page import Contents, write_report
from cutesnake.runtime.job import Files, listed
from cutesnake.stages.measure.case import commit


def report_files(
    files: Mapping[str, Files],
    config: Mapping[str, Any],
    sweep: Mapping[str, Any],
    front: str,
    output: str,
    anatomy: str | None = None,
    placeholders: Mapping[str, str] | None = None,
) -> None:
    """Read the inputs of the rule and write the page of an operator.

    files: inputs of the rule by name, a path or a list of paths each. config, sweep: the configuration and the
    operator's part of it, as used. front: file name of the front page. anatomy: folder for a page of anatomy per
    kernel, or None. placeholders: pages that the page links to, by path from its folder, and the target of each. Raises
    RecordError, ShareError and OSError.
    """
    # Reports show only the names of a user's folders, not the machine's paths.
    shown = {**config, "kernel_paths": [Path(path).name for path in config.get("kernel_paths", [])]}
    comparisons = [record.read("compare", path) for path in listed(files["comparisons"])]
    changes = [record.read("change", path) for path in listed(files["changes"])]
    if changes:
        shown["baseline"] = changes[0].baseline.label
    folder = Path(_one(files["pictures"]))
    is_front = Path(output).name == front
    evidence = load_evidence(
        _one(files["plan"]),
        listed(files["records"]),
        _one(files["roofline"]),
        listed(files["recorded"]),
        listed(files["kept"]),
    )
    made = [Path(folder) for folder in listed(files["anatomy"])]
    known = {**evidence.anatomy, **{path: one for folder in made for path, one in read_anatomy(folder).items()}}
    contents = Contents(
        arch=record.read("arch", _one(files["arch"])),
        evidence=evidence,
        comparison=comparisons[0],
        plots=record.read("plot", folder / "pictures.json").plots,
        plot_folder=folder,
        config=yaml.safe_dump(shown, sort_keys=False),
        sweep=yaml.safe_dump(dict(sweep), sort_keys=False),
        upstream=_yaml(_one(files["upstream"])),
        references=[entry for path in listed(files["references"]) for entry in _yaml(path)],
        commit=commit(),
        changes=changes,
        front=front,
        is_front=is_front,
        summary=read_summary(_one(files["summary"])) if is_front and listed(files["summary"]) else {},
        anatomy=Path(anatomy) if anatomy else _earlier(evidence.operator),
        verdicts=verdicts(evidence, comparisons[0], known),
    )
    if anatomy is not None:
        from cutesnake.stages.anatomy.page import write_pages  # which imports ptxsim

        operator = contents.evidence.operator
        page = os.path.relpath(output, anatomy)
        up = [("front page", f"../../../{front}"), (operator, page)]
        write_pages(known.values(), Path("results") if made else None, anatomy, up)
    write_report(contents, output, sorted(Path(anatomy).glob("*.html")) if anatomy else ())
    write_placeholders(placeholders or {}, Path(output).parent)


def _earlier(operator: str) -> Path | None:
    """Return the folder with pages of anatomy that an earlier run made, or None."""
    folder = Path("results/report/anatomy", operator)
    return folder if folder.is_dir() else None


def _one(files: Files) -> str:
    """Return the first of the files."""
    return listed(files)[0]


def _yaml(path: str) -> Any:
    return yaml.safe_load(Path(path).read_text())
