"""Remove results that the sweeps no longer name, and what deleted builds left: snakemake --cores 1 clean"""

from cutesnake.planning import leftovers

LEFT = []
if snakemake_internals.is_main(workflow) and snakemake_internals.asked_for("clean"):
    if snakemake_internals.targets() != ["clean"]:
        sys.exit("clean: name no other target beside it, since it must not run while results are made")
    LEFT = leftovers.find(Path("results"), PLAN)
    logger.warning(leftovers.summary(LEFT, Path("results")))


rule clean:
    log:
        "results/log/clean.log",
    conda:
        "../../envs/environment.yaml"
    params:
        paths=lambda wildcards: list(map(str, LEFT)),
    script:
        "../scripts/clean.py"
