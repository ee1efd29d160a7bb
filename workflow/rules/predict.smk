"""How long builds would take on a card that is not here, by ptxsim's clock."""


rule predict:
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        timed=timed_beside,
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
        table=clock_of,
        validated=digest_files(validation()),
        code=running_code("predict.py"),
    script:
        "../scripts/predict.py"
