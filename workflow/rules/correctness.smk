"""Builds against their operator's reference: on the card in use, and by simulation for targets whose card is missing."""


rule correctness:
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
    output:
        record="results/correctness/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/correctness/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    group:
        grouped(group_of_check)
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=cards_of,
        slurm_partition=asked_of_slurm("partition"),
        gpu_model=asked_of_slurm("gpu_model"),
        constraint=asked_of_slurm("constraint"),
    params:
        stage="correctness",
        backend=backend_of,
        identity=identity_of,
        settings=checking_settings,
        device=checking_device,
        code=checking_code,
    script:
        "../scripts/measure_case.py"
