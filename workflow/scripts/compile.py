"""Rule compile: compile the build named by the wildcards, with `params.variant`."""

from pathlib import Path

from cutesnake.runtime.job import do, listed

limit = snakemake.config.get("compile", {}).get("max_seconds")
do(
    "host",
    "compile",
    snakemake.log[0],
    "cutesnake.stages.compile.job:compile_job",
    operator=snakemake.wildcards.operator,
    kernel=snakemake.wildcards.kernel,
    target=snakemake.wildcards.target,
    variant={"id": snakemake.wildcards.variant, "params": snakemake.params.variant},
    folder=str(Path(snakemake.output.record).parent),
    recipe=snakemake.params.recipe,
    upstream=listed(snakemake.input.upstream),
    figures=snakemake.output.get("figures"),
    figures_recipe=snakemake.params.figures_recipe,
    devices=snakemake.params.devices,
    log=snakemake.log[0],
    scratch=snakemake.resources.tmpdir if snakemake.resources.get("build_in") == "scratch" else None,
    **({} if limit is None else {"limit_s": limit}),
)
