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
        recorded=f"{workflow.basedir}/recorded",
        code=digest_code("cutesnake.plot", "cutesnake.evidence"),
    script:
        "../scripts/plot.py"
