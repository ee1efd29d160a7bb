"""One picture of what all comparisons say."""


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
