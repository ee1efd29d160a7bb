"""What changed against a baseline, where the configuration names one: snakemake --cores 1 unchanged"""


rule change:
    input:
        **inputs(
            "results/change/{operator}.json",
            **EVIDENCE,
        ),
    output:
        record="results/change/{operator}.json",
        table=report(
            "results/change/{operator}.csv",
            caption="../report/captions/change.rst",
            category="Tables",
            labels={"operator": "{operator}, changes"},
        ),
    log:
        "results/log/change/{operator}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        baseline=EXPERIMENT.baseline,
        made_from=made_from,
    script:
        "../scripts/change.py"


rule unchanged:
    input:
        page=f"results/{FRONT_PAGE}" if BASELINE else [],  # the report is made anyway
        changes=CHANGES,
    log:
        "results/log/unchanged.log",
    conda:
        "../../envs/environment.yaml"
    params:
        fails=EXPERIMENT.baseline_fails,
    script:
        "../scripts/unchanged.py"
