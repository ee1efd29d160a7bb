"""The timeline of a few lone calls, under Nsight Systems."""


rule nsys:
    input:
        **inputs(
            "results/nsys/{operator}/{kernel}/{target}/{variant}/{workload}.json",
            build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
            checked=checked_first,
            timed=timed_first,
        ),
    output:
        record="results/nsys/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/nsys/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=1,
        slurm_partition=asked_of_slurm("partition"),
        gpu_model=asked_of_slurm("gpu_model"),
        constraint=asked_of_slurm("constraint"),
        slurm_extra=asked_of_slurm("exclusive"),
    params:
        stage="nsys",
        identity=identity_of,
        settings={},
        device=card_of,
        made_from=made_from,
    script:
        "../scripts/measure_case.py"
