"""Rules whose job is one task: its server, name and function are `params.task`, what it gets `params.arguments`."""

from cutesnake.runtime.job import do

kind, name, task = snakemake.params.task
do(kind, name, snakemake.log[0], task, made_from=snakemake.params.made_from, **snakemake.params.arguments)
