"""Snakemake script of the rule arch."""

from cutesnake.fault import one_line
from cutesnake.plan.arch_record import write_arch
from cutesnake.plan.machine import Machine

with one_line("arch", snakemake.log[0]):
    write_arch(Machine.from_dict(snakemake.params.machine), snakemake.params.plan, snakemake.output.record)
