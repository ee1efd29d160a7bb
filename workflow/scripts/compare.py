"""Snakemake script of the rule compare: one operator's records into its comparison."""

from cutesnake.compare.comparison import write_comparison
from cutesnake.evidence.gather import load_evidence
from cutesnake.fault import one_line

with one_line("compare", snakemake.log[0]):
    evidence = load_evidence(
        snakemake.input.plan, snakemake.input.records, snakemake.input.roofline, snakemake.input.recorded
    )
    write_comparison(evidence, snakemake.output.record, snakemake.output.table)
