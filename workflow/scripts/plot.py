"""Snakemake script of the rule plot: every picture of every operator, and the record of them."""

from cutesnake.evidence.gather import load_evidence
from cutesnake.evidence.recorded import folder_of
from cutesnake.fault import one_line
from cutesnake.plot import plot

with one_line("plot", snakemake.log[0]):
    evidences = load_evidence(
        snakemake.input.arch,
        snakemake.input.records,
        snakemake.input.rooflines,
        folder_of(snakemake.input.recorded),
    )
    plot(evidences, snakemake.output.record)
