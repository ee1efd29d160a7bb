"""Hardware counters of one call, under Nsight Compute."""


rule ncu:
    output:
        record="results/ncu/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        checked=checked_first,
    log:
        "results/log/ncu/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    params:
        stage="ncu",
        identity=identity_of,
        settings={},
        device=MACHINE.fingerprint,
        code=running_code("ncu"),
    resources:
        gpu=1,
    script:
        "../scripts/measure_case.py"
