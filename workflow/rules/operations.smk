"""Operation by operation of the hardware: which kernels use it, in what code, and how often a launch runs it."""


rule operations:
    input:
        **inputs(
            "results/operations.json",
            builds=BUILD_RECORDS,
            checks=files_of(SIMULATED),
            operations=str(PROJECT / "config/operations.yaml"),
            templates=TEMPLATES,
        ),
    output:
        record="results/operations.json",
        page=report(
            "results/report/operations.html",
            caption="../report/captions/operations.rst",
            category="Overview",
            labels={"page": "operations"},
        ),
    log:
        "results/log/operations.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=("pages", "operations", "cutesnake.report.operations:write_files"),
        arguments=lambda wildcards, input, output: {
            "builds": input.builds,
            "checks": SIMULATED,
            "operations": input.operations,
            "front": FRONT_PAGE,
            "first": FRONT,
            "output": output.record,
            "page": output.page,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
