"""Which variant is fastest: a choice from timing records, redone when one of them changes."""


rule autotune:
    input:
        timing_files_of,
    output:
        record="results/autotune/{operator}/{kernel}/{target}/{workload}.json",
    log:
        "results/log/autotune/{operator}/{kernel}/{target}/{workload}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        timings=timings_of,
        code=digest_code("autotune.py"),
    script:
        "../scripts/autotune.py"
