"""Snakemake script of the rule report: everything into one page."""

from pathlib import Path

import yaml
from cutesnake import record
from cutesnake.case import commit
from cutesnake.evidence import load_evidence
from cutesnake.report import Contents, write_report

evidences = load_evidence(
    snakemake.input.arch,  # noqa: F821
    snakemake.input.records,  # noqa: F821
    snakemake.input.rooflines,  # noqa: F821
    snakemake.params.recorded,  # noqa: F821
)
comparisons = {c["operator"]: c for c in (record.read("compare", path) for path in snakemake.input.comparisons)}  # noqa: F821
contents = Contents(
    plan=evidences[0].plan,
    evidences=evidences,
    comparisons=[comparisons[evidence.operator] for evidence in evidences],
    pictures=record.read("plot", snakemake.input.pictures)["pictures"],  # noqa: F821
    picture_folder=Path(snakemake.input.pictures).parent,  # noqa: F821
    config=yaml.safe_dump(snakemake.config, sort_keys=False),  # noqa: F821
    upstream=yaml.safe_load(Path(snakemake.input.upstream).read_text()),  # noqa: F821
    commit=commit(),
)
write_report(contents, snakemake.output.page)  # noqa: F821
