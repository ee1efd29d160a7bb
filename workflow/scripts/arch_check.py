"""Snakemake script of the rule arch."""

from cutesnake.arch_record import write_arch

write_arch(snakemake.config, snakemake.output.record)  # noqa: F821
