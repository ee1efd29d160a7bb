"""What a node of each class is and can do, found out by a job there: snakemake --workflow-profile profiles/slurm machines"""


rule machine:
    input:
        **inputs(
            "results/machine/{machine}.json",
        ),
    output:
        record="results/machine/{machine}.json",
    log:
        "results/log/machine/{machine}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=lambda wildcards: int(planned(CLASSES, wildcards.machine).device is not None),
        slurm_partition=asked_of_slurm("partition"),
        gpu_model=asked_of_slurm("gpu_model"),
        constraint=asked_of_slurm("constraint"),
    params:
        modules=matrix.modules_needed(EXPERIMENT),
        made_from=made_from,
    script:
        "../scripts/machine.py"


rule machines:
    input:
        [f"results/machine/{name}.json" for name in CLASSES],
