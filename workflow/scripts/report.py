"""Snakemake script of the rules report and page: everything about an operator into one page."""

from pathlib import Path

import yaml

from cutesnake import record
from cutesnake.evidence.gather import load_evidence
from cutesnake.fault import one_line
from cutesnake.measure.case import commit
from cutesnake.report import Contents, write_report


def read_yaml(path):
    return yaml.safe_load(Path(path).read_text())


with one_line("report", snakemake.log[0]):
    # Folders of the user's own by their names: the machine's part of a path stays out of reports.
    shown = {**snakemake.config, "kernel_paths": [Path(p).name for p in snakemake.config.get("kernel_paths", [])]}
    evidence = load_evidence(
        snakemake.input.plan, snakemake.input.records, snakemake.input.roofline, snakemake.input.recorded
    )
    paths = snakemake.input.comparisons
    comparisons = [record.read("compare", path) for path in ([paths] if isinstance(paths, str) else paths)]
    folder = Path(snakemake.input.pictures)
    overview = snakemake.input.get("overview")
    anatomy = snakemake.input.anatomy
    paths = snakemake.input.changes
    changes = [record.read("change", path) for path in ([paths] if isinstance(paths, str) else paths)]
    if changes:
        shown["baseline"] = changes[0]["baseline"]["label"]
    contents = Contents(
        arch=record.read("arch", snakemake.input.arch),
        evidence=evidence,
        comparison=comparisons[0],
        pictures=record.read("plot", folder / "pictures.json")["pictures"],
        picture_folder=folder,
        config=yaml.safe_dump(shown, sort_keys=False),
        sweep=yaml.safe_dump(snakemake.params.sweep, sort_keys=False),
        upstream=read_yaml(snakemake.input.upstream),
        references=[entry for path in snakemake.input.references for entry in read_yaml(path)],
        commit=commit(),
        changes=changes,
        front=snakemake.params.front,
        comparisons=comparisons if overview else [],
        overview=Path(overview) if overview else None,
        operations="report/operations.html" if snakemake.input.get("operations") else None,
        anatomy=Path(anatomy if isinstance(anatomy, str) else anatomy[0]) if anatomy else None,
    )
    write_report(contents, snakemake.output.page)
