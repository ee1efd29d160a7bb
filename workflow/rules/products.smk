"""What each job makes and from what: looked at before the graph is built, see cutesnake/planning/outputs.py.

A job whose result is stale or damaged has as input a file that is newer than any result, the others one that is older
than all. Inputs are `ancient` else: dates decide nothing.
"""

import atexit
import os

from cutesnake.planning import marks, outputs
from cutesnake.planning.outputs import Product, recipe
from cutesnake.planning.staleness import code_of
from cutesnake.stages.compile.compile import LIMIT_SECONDS


def products():
    """All products of the plan, each after those that it reads."""
    yield Product(
        "results/arch.json",
        "arch",
        lambda: recipe(code_of("arch.py"), plan=PLAN.as_dict(), machine=MACHINE.as_dict()),
    )
    for operator in PLAN.workloads:
        yield plan_product(operator)
    for source in sorted({*PLAN.sources.values()} - {OWN, INSTALLED}):
        code = code_of("job.py", "cutesnake.stages.fetch")
        pin = PINS.get(source)
        path = f"results/fetch/{source}/fetched.json"
        yield Product(path, "fetch", lambda code=code, pin=pin: recipe(code, pin=pin), spare=True)
    for build in EVERY_BUILD:
        yield build_product(build)
        if "inspect" in EXPERIMENT.stages:
            yield figures_product(build)
    yield from checked_products()
    for stage in ("timing", "nsys", "ncu"):
        for case in PLAN.cases_to_run(stage):
            if case.id.path(stage) not in BATCH_OF:
                yield case_product(stage, case)
        if stage == "timing":
            for batch in BATCHES.values():
                if batch.stage == stage:
                    yield batch_product(batch)
            for key, cases in CHOICES.items():
                yield Product(
                    f"results/autotune/{key}.json",
                    "autotune",
                    lambda: recipe(code_of("job.py", "cutesnake.stages.measure.autotune")),
                    files_of(case.id.path("timing") for case in cases),
                )
    for case in PLAN.predicted():
        yield predicted_product(case)
    for operator in READ if COMPILES else ():
        yield anatomy_product(operator)
    for operator in PLAN.workloads:
        yield compared_product(operator)
        if BASELINE:
            yield changed_product(operator)
    for operator in [operator for operator in PLAN.workloads if operator != FRONT]:
        yield page_product(operator, f"results/report/{operator}.html", page_inputs(operator))
    if FRONT in PLAN.workloads:
        yield page_product(FRONT, f"results/{FRONT_PAGE}", front_inputs(), tuple(f"results/{path}" for path in LINKED))
    yield from toolchain_products()
    if WHOLE:
        yield from products_of_all()
    for name in CLASSES:
        path = f"results/machine/{name}.json"
        yield Product(path, "machine", lambda: recipe(code_of("machine.py"), modules=matrix.modules_needed(EXPERIMENT)))


def products_of_all():
    """What is made from results of several operators."""
    yield Product(
        "results/overview",
        "overview",
        lambda: recipe(code_of("job.py", "cutesnake.report.plot.overview"), ("matplotlib",)),
        COMPARISONS,
    )
    if OPERATIONS:
        yield Product(
            "results/operations.json",
            "operations",
            lambda: recipe(
                code_of("job.py", "cutesnake.report.operations"), front=FRONT_PAGE, first=FRONT, checks=SIMULATED
            ),
            [*BUILD_RECORDS, *files_of(SIMULATED), str(PROJECT / "config/operations.yaml"), *TEMPLATES],
            others=(("results/report/operations.html", "page"),),
        )
    yield Product(
        f"results/{CATALOGUE}",
        "page",
        lambda: recipe(code_of("job.py", "cutesnake.report.catalogue"), front=FRONT_PAGE),
        ["results/arch.json", *COMPARISONS, "results/overview", *CHANGES, *TEMPLATES],
    )
    lessons = goals.pages(GOALS)
    for build in {build.key: build for lesson in lessons for build in timed_lesson_builds(lesson)}.values():
        yield timeline_product(build)
    for lesson in lessons:
        yield lesson_product(lesson)
    for name, exercise in GOALS.exercises.items():
        kernel = ".".join(("kernels", *exercise.kernel.split("/")))
        yield exercise_product(exercise_page(name), [], kernel, exercise=plain(exercise))
    yield exercise_product("results/learn_break.html", [GOALS_FILE])


def plan_product(operator):
    names = Names(operator=operator)
    return Product(
        f"results/plan/{operator}.json",
        "plan",
        lambda: recipe(
            code_of("job.py", "cutesnake.stages.inspect.roofline", f"kernels.{operator}.operator"),
            plan=plan_of(names),
            machine=CARDS,
            recorded=CARDS_OF_OTHERS,
        ),
        [DEVICES],
        others=((f"results/inspect/{operator}/roofline.json", "roofline"),),
    )


def build_product(build):
    names = names_of(build)
    return Product(
        build.path("compile"),
        "compile",
        lambda: recipe_of_build(names),
        upstream_of(names),
        limit_s=config.get("compile", {}).get("max_seconds", LIMIT_SECONDS),
    )


def figures_product(build):
    names = names_of(build)
    return Product(build.path("inspect"), "inspect", lambda: recipe_of_figures(names), [build.path("compile")])


def checked_products():
    for case in ON_CARDS["correctness"]:
        if case.id.path("correctness") not in BATCH_OF:
            yield case_product("correctness", case)
    for batch in BATCHES.values():
        if batch.stage == "correctness":
            yield batch_product(batch)
    for batch in SIMULATED_BATCHES.values():
        recipe_of = lambda batch=batch: recipe({}, cases=[case["recipe"] for case in simulated_in(batch)])
        yield Product(batch.path, "batch", recipe_of, builds_in(batch), of_batch(batch))


def case_product(stage, case):
    names = names_of(case.id)
    reads = [case.build.id.path("compile")]
    if stage != "correctness":
        checked = checked_first(names)
        reads += [checked] if checked else []
    if stage == "nsys":
        reads += timed_first(names)
    return Product(case.id.path(stage), stage, lambda: recipe_of_measurement(stage, case), reads)


def batch_product(batch):
    return Product(
        batch.path,
        "batch",
        lambda: recipe({}, cases=[case["recipe"] for case in measured_in(batch)]),
        [*builds_in(batch), *checked_before(batch)],
        of_batch(batch),
    )


def of_batch(batch):
    return tuple((path, batch.stage) for path in batch.records())


def predicted_product(case):
    names = names_of(case.id)
    return Product(
        case.id.path("predict"),
        "predict",
        lambda: recipe_of_prediction(case, timing_of(names)),
        [case.build.id.path("compile"), *timed_beside(names)],
    )


def anatomy_product(operator):
    names = Names(operator=operator)
    kernels = sorted({build.kernel for build in builds_of(operator)})
    return Product(
        f"results/anatomy/{operator}",
        "anatomy",
        lambda: recipe(
            code_of(
                "job.py", "cutesnake.stages.anatomy.folder", *(f"kernels.{operator}.{kernel}" for kernel in kernels)
            ),
            TORCH,
            builds=anatomy_builds_of(names),
        ),
        [build.id.path("compile") for build in builds_of(operator)],
    )


def evidence_inputs(operator):
    return [
        f"results/plan/{operator}.json",
        *records_of(operator),
        f"results/inspect/{operator}/roofline.json",
        *recorded_of(operator),
    ]


def compared_product(operator):
    others = ((f"results/compare/{operator}.csv", "table"), (f"results/plot/{operator}", "plot"))
    return Product(
        f"results/compare/{operator}.json",
        "compare",
        lambda: recipe(code_of("job.py", "cutesnake.report.plot"), ("matplotlib",)),
        [*evidence_inputs(operator), *kept_of(operator), *validation_of(Names(operator=operator))],
        others,
    )


def changed_product(operator):
    return Product(
        change_of(operator),
        "change",
        lambda: recipe(
            code_of("change.py"), baseline=EXPERIMENT.baseline, content=baseline_digest_of(Names(operator=operator))
        ),
        [*evidence_inputs(operator), *kept_of(operator)],
        ((f"results/change/{operator}.csv", "table"),),
    )


def page_inputs(operator):
    return [
        "results/arch.json",
        *evidence_inputs(operator),
        f"results/compare/{operator}.json",
        f"results/compare/{operator}.csv",
        f"results/plot/{operator}",
        *references_of(operator),
        *changes_of(operator),
        *anatomy_of(operator),
        *kept_of(operator),
        *(KNOWLEDGE if READ else []),
        *VERDICT_FILES,
        *TEMPLATES,
    ]


def front_inputs():
    return [*page_inputs(FRONT), *SUMMARY]


def page_product(operator, path, reads, linked=()):
    sources = {source for (name, _), source in PLAN.sources.items() if name == operator}
    pins = {source: PINS.get(source) for source in sorted(sources - {OWN, INSTALLED})}
    return Product(
        path,
        "page",
        lambda: recipe(
            code_of("job.py", "cutesnake.report.files"),
            front=FRONT_PAGE,
            config=config,
            sweep=asdict(EXPERIMENT.sweeps[operator]),
            pins=pins,
        ),
        reads,
        linked=linked,
    )


def lesson_product(lesson):
    return Product(
        f"results/{lesson}.html",
        "page",
        lambda: recipe(
            code_of("learn.py"),
            TORCH,
            builds=lesson_problems(lesson),
            checks=lesson_checks(lesson),
            own=OWN_KERNELS,
            devices=PLAN.clocks,
        ),
        [
            *(build.id.path("compile") for build in lesson_builds(lesson)),
            *lesson_timelines(lesson).values(),
            *lesson_checked(lesson),
            GOALS_FILE,
            *KNOWLEDGE,
            *TEMPLATES,
        ],
    )


def timeline_product(build):
    return Product(
        timeline_path(build),
        "predict",
        lambda: recipe_of_prediction(timeline_case(build)),
        [build.id.path("compile")],
    )


def exercise_product(path, reads, *modules, **params):
    return Product(
        path,
        "page",
        lambda: recipe(code_of("exercise.py", *modules), ("nvidia-cutlass-dsl", *TORCH), **params),
        [EXAMPLES, *reads, *TEMPLATES],
    )


PRODUCTS = {product.path: product for product in products()}
MADE_AGAIN = MISSING = frozenset()
# A job that an executor starts reads all this again; it gets its task by arguments.
if snakemake_internals.is_main(workflow):
    forced = outputs.forced_by(sys.argv)
    FINDINGS = outputs.look(PRODUCTS.values(), lambda product: product.stage in forced or product.path in forced)
    if not snakemake_internals.asked_for("clean"):  # which makes nothing
        if FINDINGS.damage():
            logger.warning(FINDINGS.damage())
        if FINDINGS.staleness():
            logger.info(FINDINGS.staleness())
    # The last ones are made whenever they are asked for.
    MADE_AGAIN = frozenset([*FINDINGS.why, "results/kept.txt", "results/recorded_builds.txt", SITE_FOLDER])
    MISSING = frozenset(
        path
        for product in PRODUCTS.values()
        if not product.spare and not os.path.lexists(product.path)
        for path in product.paths
    )
    marks.make(path for name in FINDINGS.why for path in PRODUCTS[name].paths)
    atexit.register(outputs.remember, PRODUCTS.values())
    atexit.register(marks.remove)


def inputs(products, **named):
    """Return the inputs of the job that makes these products, and the input that says whether it must run.

    Where it has to, or has not run yet, nothing is `ancient`: Snakemake does not look at a job that follows from one
    that runs, not even for missing outputs.
    """
    patterns = [products] if isinstance(products, str) else products

    def among(names, wildcards):
        return any(pattern.format(**wildcards) in names for pattern in patterns)

    def again(wildcards):
        return among(MADE_AGAIN, wildcards)

    def dated(paths):
        def resolved(wildcards):
            named = paths(wildcards) if callable(paths) else paths
            one = isinstance(named, str)
            files = named.format(**wildcards) if one else [path.format(**wildcards) for path in named]
            return files if again(wildcards) or among(MISSING, wildcards) else ancient(files)

        return resolved

    marked = {"state": lambda wildcards: marks.STALE if again(wildcards) else marks.CURRENT}
    return marked | {name: dated(paths) for name, paths in named.items()}


def made_from(wildcards, output):
    """Return the provenance of a job's results."""
    product = next((PRODUCTS[path] for path in output if path in PRODUCTS), None)
    return {"recipe": product.recipe(), "files": product.named} if product else {}
