"""A static site of all pages, the documentation and the data, made from records without compiling."""


rule site:
    input:
        **inputs(
            SITE_FOLDER,
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
    script:
        "../scripts/write_site.py"
