"""Keep this machine's measurements for others: snakemake --cores 1 keep"""


rule keep:
    input:
        **inputs("results/kept.txt", measured=files_of(MEASURED)),
    output:
        summary="results/kept.txt",
    log:
        "results/log/keep.log",
    conda:
        "../../envs/environment.yaml"
    params:
        folder=str(PROJECT / "recorded"),
    script:
        "../scripts/keep.py"
