"""Snakemake script of the rule compare: one operator's records into its comparison."""

from cutesnake.compare.comparison import write_comparison
from cutesnake.evidence.gather import load_evidence
from cutesnake.evidence.recorded import folder_of
from cutesnake.fault import one_line

with one_line("compare", snakemake.log[0]):
    operator = snakemake.wildcards.operator
    evidences = load_evidence(
        snakemake.input.arch,
        snakemake.input.records,
        snakemake.input.rooflines,
        folder_of(snakemake.input.recorded),
    )
    evidence = next(evidence for evidence in evidences if evidence.operator == operator)
    write_comparison(evidence, snakemake.output.record)
