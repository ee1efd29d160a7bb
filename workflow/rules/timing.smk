"""NVBench and a second source, on builds that are correct."""


rule timing:
    input:
        **inputs(
            "results/timing/{operator}/{kernel}/{target}/{variant}/{workload}.json",
            build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
            checked=checked_first,
        ),
    output:
        record="results/timing/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/timing/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=1,
        slurm_partition=asked_of_slurm("partition"),
        gpu_model=asked_of_slurm("gpu_model"),
        constraint=asked_of_slurm("constraint"),
        slurm_extra=asked_of_slurm("exclusive"),
    params:
        task=(None, "timing", "cutesnake.stages.measure.stage:run_case"),
        arguments=measuring("timing"),
        made_from=made_from,
    script:
        "../scripts/job.py"
