"""Snakemake script of the rule arch."""

from cutesnake.fault import one_line
from cutesnake.plan.arch_record import write_arch

with one_line("arch", snakemake.log[0]):
    write_arch(snakemake.config, snakemake.output.record)
