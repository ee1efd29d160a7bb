"""The timeline of a few calls, under Nsight Systems."""


rule nsys:
    output:
        record="results/nsys/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        checked=checked_first,
    log:
        "results/log/nsys/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    params:
        stage="nsys",
        identity=identity_of,
        settings={},
        device=MACHINE.fingerprint,
        code=running_code("nsys"),
    resources:
        gpu=1,
    script:
        "../scripts/measure_case.py"
