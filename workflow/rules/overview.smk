"""One picture of what all comparisons say."""


rule overview:
    input:
        **inputs(
            "results/overview",
            comparisons=COMPARISONS,
        ),
    output:
        folder=report(
            directory("results/overview"),
            patterns=["{picture}.svg"],
            caption="../report/captions/overview.rst",
            category="Overview",
            labels={"picture": "{picture}"},
        ),
    log:
        "results/log/overview.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=("plots", "overview", "cutesnake.report.plot.overview:overview_files"),
        arguments=lambda wildcards, input, output: {
            "comparisons": input.comparisons,
            "folder": output.folder,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"
