"""What to read and what to ask of it: snakemake --cores 2 learn, or one path: learn_path_a, learn_path_b, learn_path_c"""


rule learn_page:
    input:
        **inputs(
            "results/{lesson}.html",
            builds=lambda wildcards: [build.id.path("compile") for build in lesson_builds(wildcards.lesson)],
            checks=lambda wildcards: lesson_checked(wildcards.lesson),
            goals=GOALS_FILE,
            knowledge=KNOWLEDGE,
            templates=TEMPLATES,
        ),
    output:
        page=report(
            "results/{lesson}.html",
            caption="../report/captions/learn.rst",
            category="Learn",
            labels={"page": "{lesson}"},
        ),
        folder=directory("results/learn/{lesson}"),
    log:
        "results/log/learn/{lesson}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        builds=lambda wildcards: lesson_problems(wildcards.lesson),
        checks=lambda wildcards: lesson_checks(wildcards.lesson),
        own=OWN_KERNELS,
        made_from=made_from,
    script:
        "../scripts/learn.py"


rule learn:
    input:
        [f"results/{page}.html" for page in goals.pages(GOALS)],


rule learn_path_a:
    input:
        "results/learn_path_a.html",


rule learn_path_b:
    input:
        "results/learn_path_b.html",


rule learn_path_c:
    input:
        "results/learn_path_c.html",
