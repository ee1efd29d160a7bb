"""Which variant is fastest: a choice from timing records, redone when one of them changes."""


rule autotune:
    input:
        **inputs(
            "results/autotune/{operator}/{kernel}/{target}/{workload}.json",
            timings=timing_files_of,
        ),
    output:
        record="results/autotune/{operator}/{kernel}/{target}/{workload}.json",
    log:
        "results/log/autotune/{operator}/{kernel}/{target}/{workload}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=(None, "autotune", "cutesnake.stages.measure.autotune:write_choice"),
        arguments=lambda wildcards, input, output: {
            "timings": timings_of(wildcards),
            "output": output.record,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
