"""How each kernel is made: roles of its warps, pipelines, budgets and patterns, from its code and a simulated run."""


rule anatomy:
    input:
        **inputs(
            "results/anatomy/{operator}",
            builds=lambda wildcards: [build.id.path("compile") for build in builds_of(wildcards.operator)],
        ),
    output:
        folder=directory("results/anatomy/{operator}"),
    log:
        "results/log/anatomy/{operator}.log",
    priority: 2 * BUILDS_FIRST
    group:
        grouped("operators")
    conda:
        "../../envs/environment.yaml"
    params:
        builds=anatomy_builds_of,
        made_from=made_from,
    script:
        "../scripts/anatomy.py"
