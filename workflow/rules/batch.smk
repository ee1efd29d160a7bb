"""Many cases of a build in one job, where the configuration asks for it (cases_per_job)."""


rule batch:
    input:
        **inputs(
            "results/batch/{stage}/{operator}/{kernel}/{target}/{variant}/{batch}.json",
            build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
            checked=lambda wildcards: checked_before(batch_of(wildcards)),
        ),
    output:
        record="results/batch/{stage}/{operator}/{kernel}/{target}/{variant}/{batch}.json",
    log:
        "results/log/batch/{stage}/{operator}/{kernel}/{target}/{variant}/{batch}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=1,
        slurm_partition=asked_of_slurm("partition"),
        gpu_model=asked_of_slurm("gpu_model"),
        constraint=asked_of_slurm("constraint"),
        slurm_extra=lambda wildcards: asked_of_slurm("exclusive")(wildcards) if wildcards.stage == "timing" else None,
    params:
        task=lambda wildcards: (None, wildcards.stage, "cutesnake.stages.measure.batch:run_batch"),
        arguments=lambda wildcards, input, output: {
            "stage": wildcards.stage,
            "cases": measured_in(batch_of(wildcards)),
            "settings": settings_of(wildcards.stage, wildcards.operator),
            "output": output.record,
            "planned_gpu": card_of(wildcards),
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
