"""Ahead of time, with no GPU: one build per kernel, target and variant, and what it uses, its static figures."""


rule compile:
    input:
        **inputs(
            (
                "results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
                "results/inspect/{operator}/{kernel}/{target}/{variant}.json",
            ),
            upstream=upstream_of,
        ),
    output:
        **FIGURES,
        record="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
    log:
        "results/log/compile/{operator}/{kernel}/{target}/{variant}.log",
    priority: BUILDS_FIRST
    group:
        grouped("builds")
    conda:
        "../../envs/environment.yaml"
    resources:
        slurm_partition=asked_of_slurm("partition"),
        constraint=asked_of_slurm("constraint"),
    params:
        variant=variant_of,
        devices=DEVICES,
        recipe=recipe_of_build,
        figures_recipe=recipe_of_figures,
    script:
        "../scripts/compile.py"
