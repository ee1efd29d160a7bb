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
        task=("simulator", "anatomy", "cutesnake.stages.anatomy.folder:write_folder"),
        arguments=lambda wildcards, input, output: {
            "operator": wildcards.operator,
            "builds": anatomy_builds_of(wildcards),
            "results": "results",
            "folder": output.folder,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
