"""How long builds would take on a card that is not here, by ptxsim's clock."""


rule predict:
    input:
        **inputs(
            "results/predict/{operator}/{kernel}/{target}/{variant}/{workload}.json",
            build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
            timed=timed_beside,
        ),
    output:
        record="results/predict/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/predict/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    priority: BUILDS_FIRST
    group:
        grouped("builds")
    conda:
        "../../envs/environment.yaml"
    resources:
        slurm_partition=asked_of_slurm("partition"),
        constraint=asked_of_slurm("constraint"),
    params:
        identity=identity_of,
        settings=lambda wildcards: {"device": PLAN.clocks[wildcards.target]},
        timing=timing_of,
        made_from=made_from,
    script:
        "../scripts/predict.py"
