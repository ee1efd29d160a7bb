"""Every build that runs here against the operator's reference, on every workload."""


rule correctness:
    input:
        build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
    output:
        record="results/correctness/{operator}/{kernel}/{target}/{variant}/{workload}.json",
    log:
        "results/log/correctness/{operator}/{kernel}/{target}/{variant}/{workload}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=1,
    params:
        stage="correctness",
        identity=identity_of,
        settings=config["correctness"],
        device=MACHINE.fingerprint,
        code=running_code("correctness"),
    script:
        "../scripts/measure_case.py"
