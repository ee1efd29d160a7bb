"""Keep this machine's measurements for others: snakemake --cores 1 keep"""


rule keep:
    input:
        files_of(MEASURED),
    output:
        summary="results/kept.txt",
    log:
        "results/log/keep.log",
    conda:
        "../../envs/environment.yaml"
    params:
        folder=str(PROJECT / "recorded"),
        code=digest_code("keep.py"),
    script:
        "../scripts/keep.py"
