"""Everything in one file."""


rule report:
    input:
        arch="results/arch.json",
        records=[*BUILD_RECORDS, *INSPECT_RECORDS, *MEASURED],
        rooflines=ROOFLINES,
        recorded=RECORDED,
        comparisons=[f"results/compare/{operator}.json" for operator in PLAN.workloads],
        pictures="results/plot/pictures.json",
        upstream=f"{workflow.basedir}/kernels/upstream.yaml",
        templates=sorted(str(path) for path in Path(workflow.basedir, "workflow/report").iterdir()),
    output:
        page="results/mla_report.html",
    log:
        "results/log/report.log",
    conda:
        "../../envs/environment.yaml"
    params:
        recorded=f"{workflow.basedir}/recorded",
        config=digest_data(config),
        code=digest_code("cutesnake.report", "cutesnake.evidence"),
    script:
        "../scripts/report.py"
