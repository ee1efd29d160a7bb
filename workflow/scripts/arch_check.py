"""Snakemake script of the rule arch."""

from cutesnake.arch_record import write_arch
from cutesnake.fault import one_line

with one_line("arch", snakemake.log[0]):
    write_arch(snakemake.config, snakemake.output.record)
