"""cuTile beside CuTe, per workload and target, and every cell says where its value comes from."""


rule compare:
    input:
        arch="results/arch.json",
        records=[*BUILD_RECORDS, *INSPECT_RECORDS, *MEASURED],
        rooflines=ROOFLINES,
        recorded=RECORDED,
    output:
        record="results/compare/{operator}.json",
    log:
        "results/log/compare/{operator}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=digest_code("compare.py"),
    script:
        "../scripts/compare.py"
