"""Pictures of what there is to show, a folder of them per operator."""


rule plot:
    input:
        plan="results/plan/{operator}.json",
        records=lambda wildcards: planned(DRAWN, wildcards.operator),
        roofline="results/inspect/{operator}/roofline.json",
        recorded=lambda wildcards: recorded_of(wildcards.operator),
        held=validation_of,
    output:
        folder=report(
            directory("results/plot/{operator}"),
            patterns=["{picture}.svg"],
            caption="../report/captions/picture.rst",
            category="Pictures",
            subcategory="{operator}",
            labels={"picture": "{picture}"},
        ),
    log:
        "results/log/plot/{operator}.log",
    priority: 2 * BUILDS_FIRST
    group:
        grouped("operators")
    conda:
        "../../envs/environment.yaml"
    params:
        code=digest_code("plot.py"),
    script:
        "../scripts/plot.py"


rule overview:
    input:
        comparisons=COMPARISONS,
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
        code=digest_code("overview.py"),
    script:
        "../scripts/overview.py"
