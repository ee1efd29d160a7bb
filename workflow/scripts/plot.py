"""Snakemake script of the rule plot: every picture of one operator, and the record of them."""

from cutesnake.evidence.gather import load_evidence
from cutesnake.fault import one_line
from cutesnake.plot import plot
from cutesnake.predict.held import read_held

with one_line("plot", snakemake.log[0]):
    evidence = load_evidence(
        snakemake.input.plan, snakemake.input.records, snakemake.input.roofline, snakemake.input.recorded
    )
    held = snakemake.input.held
    plot(evidence, snakemake.output.folder, read_held([held] if isinstance(held, str) else held))
