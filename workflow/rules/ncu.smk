"""Hardware counters of one call, under Nsight Compute."""


rule ncu:
    input:
        **inputs(
            "results/ncu/{operator}/{kernel}/{target}/{variant}/{workload}.json",
            build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
            checked=checked_first,
        ),
    output:
        record="results/ncu/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/ncu/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=1,
        slurm_partition=asked_of_slurm("partition"),
        gpu_model=asked_of_slurm("gpu_model"),
        constraint=asked_of_slurm("constraint"),
    params:
        stage="ncu",
        identity=identity_of,
        settings={},
        device=card_of,
        made_from=made_from,
    script:
        "../scripts/measure_case.py"
