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
        task=("simulator", "predict", "cutesnake.stages.predict.prediction:run_case"),
        arguments=lambda wildcards, input, output: {
            "identity": identity_of(wildcards),
            "settings": {"device": PLAN.clocks[wildcards.target]},
            "build": input.build,
            "timing": timing_of(wildcards),
            "output": output.record,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
