"""Keep this machine's measurements for others: snakemake --cores 1 record"""


rule record:
    input:
        MEASURED,
    output:
        summary="results/recorded.txt",
    log:
        "results/log/record.log",
    conda:
        "../../envs/environment.yaml"
    params:
        folder=str(PROJECT / "recorded"),
        code=digest_code("keep_measurements.py"),
    script:
        "../scripts/keep_measurements.py"
