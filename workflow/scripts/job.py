"""Do a rule's one task: `params.task` (server, name, function) with `params.arguments`."""

from cutesnake.runtime.job import do

kind, name, task = snakemake.params.task
do(kind, name, snakemake.log[0], task, made_from=snakemake.params.made_from, **snakemake.params.arguments)
