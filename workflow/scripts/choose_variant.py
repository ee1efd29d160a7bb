"""Snakemake script of the rule autotune: timing records of one kernel, target and workload in, the choice out."""

from cutesnake.autotune import write_choice

write_choice(snakemake.input, snakemake.output.record)  # noqa: F821
