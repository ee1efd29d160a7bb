"""Everything in one file."""


rule report:
    input:
        arch="results/arch.json",
        records=[*BUILD_RECORDS, *INSPECT_RECORDS, *MEASURED],
        rooflines=ROOFLINES,
        recorded=RECORDED,
        comparisons=[f"results/compare/{operator}.json" for operator in PLAN.workloads],
        pictures="results/plot/pictures.json",
        upstream=str(PROJECT / "kernels/upstream.yaml"),
        references=REFERENCE_TIMES,
        templates=TEMPLATES,
    output:
        page="results/mla_report.html",
    log:
        "results/log/report.log",
    conda:
        "../../envs/environment.yaml"
    params:
        config=digest_data(config),
        code=digest_code("report.py"),
    script:
        "../scripts/report.py"
