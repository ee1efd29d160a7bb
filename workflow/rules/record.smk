"""Keep this machine's measurements for others: snakemake --cores 1 record"""


rule record:
    output:
        summary="results/recorded.txt",
    input:
        MEASURED,
    log:
        "results/log/record.log",
    params:
        results="results",
        folder="recorded",
        code=digest_code("cutesnake.recorded"),
    script:
        "../scripts/keep_measurements.py"
