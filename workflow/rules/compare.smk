"""cuTile beside CuTe, per workload and target, and every cell says where its value comes from."""


rule compare:
    input:
        plan="results/plan/{operator}.json",
        records=lambda wildcards: records_of(wildcards.operator),
        roofline="results/inspect/{operator}/roofline.json",
        recorded=lambda wildcards: recorded_of(wildcards.operator),
    output:
        record="results/compare/{operator}.json",
        table=report(
            "results/compare/{operator}.csv",
            caption="../report/captions/table.rst",
            category="Tables",
            labels={"operator": "{operator}"},
        ),
    log:
        "results/log/compare/{operator}.log",
    group:
        grouped("operators")
    conda:
        "../../envs/environment.yaml"
    params:
        code=digest_code("compare.py"),
    script:
        "../scripts/compare.py"
