"""Which variant is fastest: a choice from timing records, redone when one of them changes."""


rule autotune:
    input:
        timings_of,
    output:
        record="results/autotune/{operator}/{kernel}/{target}/{workload}.json",
    log:
        "results/log/autotune/{operator}/{kernel}/{target}/{workload}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=digest_code("autotune.py"),
    script:
        "../scripts/autotune.py"
