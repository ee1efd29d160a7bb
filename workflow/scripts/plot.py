"""Snakemake script of the rule plot: every picture of every operator, and the record of them."""

from cutesnake.evidence import load_evidence
from cutesnake.plot import plot

evidences = load_evidence(
    snakemake.input.arch,  # noqa: F821
    snakemake.input.records,  # noqa: F821
    snakemake.input.rooflines,  # noqa: F821
    snakemake.params.recorded,  # noqa: F821
)
plot(evidences, snakemake.output.record)  # noqa: F821
