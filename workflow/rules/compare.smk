"""cuTile beside CuTe, per workload and target, each cell with its source; and pictures of what there is to show."""


rule compare:
    input:
        **inputs(
            "results/compare/{operator}.json",
            **EVIDENCE,
            held=validation_of,
        ),
    output:
        record="results/compare/{operator}.json",
        table=report(
            "results/compare/{operator}.csv",
            caption="../report/captions/table.rst",
            category="Tables",
            labels={"operator": "{operator}"},
        ),
        pictures=report(
            directory("results/plot/{operator}"),
            patterns=["{picture}.svg"],
            caption="../report/captions/picture.rst",
            category="Plots",
            subcategory="{operator}",
            labels={"picture": "{picture}"},
        ),
    log:
        "results/log/compare/{operator}.log",
    priority: 2 * BUILDS_FIRST
    group:
        grouped("operators")
    conda:
        "../../envs/environment.yaml"
    params:
        task=("plots", "compare", "cutesnake.report.plot:compare_and_plot"),
        arguments=lambda wildcards, input, output: {
            "plan": input.plan,
            "records": input.records,
            "roofline": input.roofline,
            "recorded": input.recorded,
            "kept": input.kept,
            "validation": input.held,
            "output": output.record,
            "table": output.table,
            "folder": output.pictures,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
