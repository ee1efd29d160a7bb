"""Keep this machine's measurements for others: snakemake --cores 1 keep"""

if snakemake_internals.is_main(workflow) and snakemake_internals.asked_for("keep"):
    from cutesnake.analysis.evidence import recorded_set

    try:
        recorded_set.refuse_mocked_machine()  # before the run measures, not after
    except recorded_set.RecordedError as error:
        sys.exit(f"keep: {error}")


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


rule record_builds:
    """Refresh recorded/builds/ from builds, checks and predictions of all operators."""
    input:
        **inputs(
            "results/recorded_builds.txt",
            made=lambda wildcards: files_of(
                path for names in kept_names().values() for name, path in names.items() if name != kept_builds.ANATOMY
            ),
            anatomy=lambda wildcards: [folder for operator in READ for folder in anatomy_of(operator)],
            comparisons=COMPARISONS,
        ),
    output:
        summary="results/recorded_builds.txt",
    log:
        "results/log/record_builds.log",
    conda:
        "../../envs/environment.yaml"
    params:
        folder=str(KEPT_FOLDER),
        recorded_keys=lambda wildcards: kept_keys(),
        recorded_paths=lambda wildcards: kept_names(),
    script:
        "../scripts/record_builds.py"
