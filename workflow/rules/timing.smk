"""NVBench and a second source, on builds that are correct."""


rule timing:
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        checked=checked_first,
    output:
        record="results/timing/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/timing/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=1,
    params:
        stage="timing",
        identity=identity_of,
        settings=EXPERIMENT.timing,
        device=MACHINE.fingerprint,
        code=running_code("cutesnake.measure.timing"),
    script:
        "../scripts/measure_case.py"
