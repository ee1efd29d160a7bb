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
        timings=timings_of,
        made_from=made_from,
    script:
        "../scripts/autotune.py"
