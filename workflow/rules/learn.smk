"""What to read and what to ask of it: targets learn, learn_path_a, learn_path_b, learn_path_c; exercises: learn_break"""


rule learn_page:
    input:
        **inputs(
            "results/{lesson}.html",
            builds=lambda wildcards: [build.id.path("compile") for build in lesson_builds(wildcards.lesson)],
            checks=lambda wildcards: lesson_checked(wildcards.lesson),
            timelines=lambda wildcards: list(lesson_timelines(wildcards.lesson).values()),
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
        task=(None, "learn", "cutesnake.report.learn.page:write"),
        arguments=lambda wildcards, input, output: {
            "page": wildcards.lesson,
            "goals": input.goals,
            "builds": lesson_problems(wildcards.lesson),
            "checks": lesson_checks(wildcards.lesson),
            "own": OWN_KERNELS,
            "timelines": lesson_timelines(wildcards.lesson),
            "devices": PLAN.clocks,
            "output": output.page,
            "folder": output.folder,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"


rule timeline:
    input:
        **inputs(
            "results/learn/timelines/{operator}/{kernel}/{target}/{variant}.json",
            build="results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        ),
    output:
        record="results/learn/timelines/{operator}/{kernel}/{target}/{variant}.json",
    log:
        "results/log/learn/timelines/{operator}/{kernel}/{target}/{variant}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=("simulator", "predict", "cutesnake.stages.predict.prediction:run_case"),
        arguments=lambda wildcards, input, output: {
            "identity": identity(timeline_case(build_of(wildcards))),
            "settings": {"device": PLAN.clocks[wildcards.target]},
            "build": input.build,
            "output": output.record,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"


rule learn:
    input:
        [f"results/{page}.html" for page in goals.pages(GOALS)],
        "results/learn_break.html",


rule learn_path_a:
    input:
        "results/learn_path_a.html",


rule learn_path_b:
    input:
        "results/learn_path_b.html",


rule learn_path_c:
    input:
        "results/learn_path_c.html",


rule exercise:
    input:
        **inputs(
            "results/learn/exercises/{exercise}.html",
            upstream=EXAMPLES,
            templates=TEMPLATES,
        ),
    output:
        page="results/learn/exercises/{exercise}.html",
    log:
        "results/log/exercise/{exercise}.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=("simulator", "exercise", "cutesnake.report.learn.exercises:write"),
        arguments=lambda wildcards, input, output: {
            "name": wildcards.exercise,
            "values": plain(planned(GOALS.exercises, wildcards.exercise)),
            "fetched": str(Path(input.upstream).parents[1]),
            "output": output.page,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"


rule exercises:
    input:
        **inputs("results/learn_break.html", upstream=EXAMPLES, goals=GOALS_FILE, templates=TEMPLATES),
    output:
        page=report(
            "results/learn_break.html",
            caption="../report/captions/learn.rst",
            category="Learn",
            labels={"page": "learn_break"},
        ),
    log:
        "results/log/exercises.log",
    conda:
        "../../envs/environment.yaml"
    params:
        task=("pages", "exercise", "cutesnake.report.learn.exercises:write_index"),
        arguments=lambda wildcards, input, output: {
            "goals": input.goals,
            "fetched": str(Path(input.upstream).parents[1]),
            "output": output.page,
        },
        made_from=made_from,
    script:
        "../scripts/job.py"


rule learn_break:
    input:
        "results/learn_break.html",
        [exercise_page(name) for name in GOALS.exercises],
