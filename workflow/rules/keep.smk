"""Keep this machine's measurements for others: snakemake --cores 1 keep"""


rule keep:
    input:
        state=marks.STALE if workflow.is_main_process else marks.CURRENT,
        measured=old(files_of(MEASURED)),
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
