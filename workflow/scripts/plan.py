"""Snakemake script of the rule plan: what is asked of one operator."""

from cutesnake.fault import one_line
from cutesnake.plan.arch_record import write_plan

with one_line("plan", snakemake.log[0]):
    write_plan(snakemake.params.plan, snakemake.output.record)
