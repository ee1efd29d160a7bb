"""Snakemake script of the rule report: everything into one page."""

from pathlib import Path

import yaml

from cutesnake import record
from cutesnake.evidence.gather import load_evidence
from cutesnake.evidence.recorded import folder_of
from cutesnake.fault import one_line
from cutesnake.measure.case import commit
from cutesnake.report import Contents, write_report


def read_yaml(path):
    return yaml.safe_load(Path(path).read_text())


with one_line("report", snakemake.log[0]):
    evidences = load_evidence(
        snakemake.input.arch,
        snakemake.input.records,
        snakemake.input.rooflines,
        folder_of(snakemake.input.recorded),
    )
    comparisons = {c["operator"]: c for c in (record.read("compare", path) for path in snakemake.input.comparisons)}
    contents = Contents(
        plan=evidences[0].plan,
        evidences=evidences,
        comparisons=[comparisons[evidence.operator] for evidence in evidences],
        pictures=record.read("plot", snakemake.input.pictures)["pictures"],
        picture_folder=Path(snakemake.input.pictures).parent,
        config=yaml.safe_dump(snakemake.config, sort_keys=False),
        upstream=read_yaml(snakemake.input.upstream),
        references={
            Path(path).parent.name: yaml.safe_load(Path(path).read_text()) for path in snakemake.input.references
        },
        commit=commit(),
    )
    write_report(contents, snakemake.output.page)
