"""NVBench and a second source, on builds that are correct."""


rule timing:
    output:
        record="results/timing/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        checked=checked_first,
    log:
        "results/log/timing/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    params:
        stage="timing",
        identity=identity_of,
        settings=config["timing"],
        device=MACHINE.fingerprint,
        code=running_code("timing"),
    resources:
        gpu=1,
    script:
        "../scripts/measure_case.py"
