"""Builds against their operator's reference: on the card in use, and by simulation for targets whose card is missing."""


rule correctness:
    input:
        **inputs(
            "results/correctness/{operator}/{kernel}/{target}/{variant}/{workload}.json",
            build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        ),
    output:
        record="results/correctness/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/correctness/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=1,
        slurm_partition=asked_of_slurm("partition"),
        gpu_model=asked_of_slurm("gpu_model"),
        constraint=asked_of_slurm("constraint"),
    params:
        task=(None, "correctness", "cutesnake.stages.measure.stage:run_case"),
        arguments=measuring("correctness"),
        made_from=made_from,
    script:
        "../scripts/job.py"


rule simulated:
    input:
        **inputs(
            "results/batch/{part}/{operator}/{kernel}/{target}.json",
            builds=lambda wildcards: builds_in(simulated_of(wildcards)),
        ),
    output:
        record="results/batch/{part}/{operator}/{kernel}/{target}.json",
    log:
        "results/log/{part}/{operator}/{kernel}/{target}.log",
    group:
        grouped("builds")
    conda:
        "../../envs/environment.yaml"
    resources:
        slurm_partition=asked_of_slurm("partition"),
        constraint=asked_of_slurm("constraint"),
    params:
        cases=lambda wildcards: simulated_in(simulated_of(wildcards)),
        made_from=made_from,
    script:
        "../scripts/simulate_batch.py"
