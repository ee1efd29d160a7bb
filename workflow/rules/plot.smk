"""Pictures of what there is to show."""


rule plot:
    input:
        arch="results/arch.json",
        records=[*BUILD_RECORDS, *INSPECT_RECORDS, *MEASURED],
        rooflines=ROOFLINES,
        recorded=RECORDED,
    output:
        record="results/plot/pictures.json",
    log:
        "results/log/plot.log",
    conda:
        "../../envs/environment.yaml"
    params:
        code=digest_code("plot.py"),
    script:
        "../scripts/plot.py"
