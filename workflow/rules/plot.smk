"""Pictures of what there is to show, a folder of them per operator."""


rule plot:
    input:
        plan="results/plan/{operator}.json",
        records=lambda wildcards: records_of(wildcards.operator),
        roofline="results/inspect/{operator}/roofline.json",
        recorded=lambda wildcards: recorded_of(wildcards.operator),
    output:
        folder=directory("results/plot/{operator}"),
    log:
        "results/log/plot/{operator}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=digest_code("plot.py"),
    script:
        "../scripts/plot.py"
