"""A static site of all pages, the documentation and the data, made from records without compiling."""


rule site:
    input:
        **inputs(
            SITE_FOLDER,
            arch="results/arch.json",
            front=f"results/{FRONT_PAGE}",
            catalogue=f"results/{CATALOGUE}",
            pages=[f"results/report/{operator}.html" for operator in OTHERS],
            tables=[f"results/compare/{operator}.csv" for operator in PLAN.operators],
        ),
    output:
        folder=directory(SITE_FOLDER),
    log:
        "results/log/site.log",
    conda:
        "../../envs/environment.yaml"
    params:
        project=str(PROJECT),
        files=lambda wildcards: {
            **{name: files(wildcards) for name, files in EVIDENCE.items()},
            "anatomy": anatomy_of(FRONT),
            "comparisons": f"results/compare/{FRONT}.json",
            "pictures": f"results/plot/{FRONT}",
            "references": references_of(FRONT),
            "upstream": UPSTREAM,
            "summary": SUMMARY,
        },
        sweep=asdict(EXPERIMENT.sweeps[FRONT]),
    script:
        "../scripts/write_site.py"
