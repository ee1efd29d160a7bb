"""Snakemake script of the rule plot: every picture of one operator, and the record of them."""

from cutesnake.evidence.gather import load_evidence
from cutesnake.fault import one_line
from cutesnake.plot import plot

with one_line("plot", snakemake.log[0]):
    evidence = load_evidence(
        snakemake.input.plan, snakemake.input.records, snakemake.input.roofline, snakemake.input.recorded
    )
    plot(evidence, snakemake.output.folder)
