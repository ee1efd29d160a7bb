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
    yield of_rule(
        "results/arch.json",
        {},
        "arch",
        lambda: recipe(
            code_of("job.py", "cutesnake.planning.arch_record"), plan=PLAN.as_dict(), machine=MACHINE.as_dict()
        ),
    )
    for operator in PLAN.workloads:
        yield plan_product(operator)
    for source in sorted({*PLAN.sources.values()} - {OWN, INSTALLED}):
        yield fetched_product(source)
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
            for cases in CHOICES.values():
                yield of_rule(
                    "results/autotune/{operator}/{kernel}/{target}/{workload}.json",
                    names_of(cases[0].id),
                    "autotune",
                    lambda: recipe(code_of("job.py", "cutesnake.stages.measure.autotune")),
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
        yield page_product(operator, "results/report/{operator}.html")
    if FRONT in PLAN.workloads:
        yield page_product(FRONT, f"results/{FRONT_PAGE}", linked=tuple(f"results/{path}" for path in LINKED))
    yield from toolchain_products()
    if WHOLE:
        yield from products_of_all()
    for name in CLASSES:
        yield of_rule(
            "results/machine/{machine}.json",
            {"machine": name},
            "machine",
            lambda: recipe(code_of("machine.py"), modules=matrix.modules_needed(EXPERIMENT)),
        )


def products_of_all():
    """What is made from results of several operators."""
    yield of_rule(
        "results/overview",
        {},
        "overview",
        lambda: recipe(code_of("job.py", "cutesnake.report.plot.overview"), ("matplotlib",)),
    )
    if OPERATIONS:
        yield of_rule(
            "results/operations.json",
            {},
            "operations",
            lambda: recipe(
                code_of("job.py", "cutesnake.report.operations"), front=FRONT_PAGE, first=FRONT, checks=SIMULATED
            ),
            others=(("results/report/operations.html", "page"),),
        )
    yield of_rule(
        f"results/{CATALOGUE}",
        {},
        "page",
        lambda: recipe(code_of("job.py", "cutesnake.report.catalogue"), front=FRONT_PAGE),
    )
    lessons = goals.pages(GOALS)
    for build in {build.key: build for lesson in lessons for build in timed_lesson_builds(lesson)}.values():
        yield timeline_product(build)
    for lesson in lessons:
        yield lesson_product(lesson)
    for name, exercise in GOALS.exercises.items():
        kernel = ".".join(("kernels", *exercise.kernel.split("/")))
        names = {"exercise": name}
        yield exercise_product("results/learn/exercises/{exercise}.html", names, kernel, exercise=plain(exercise))
    yield exercise_product("results/learn_break.html", {})


def fetched_product(source):
    return of_rule(
        "results/fetch/{package}/fetched.json",
        {"package": source},
        "fetch",
        lambda: recipe(code_of("job.py", "cutesnake.stages.fetch"), pin=PINS.get(source)),
        spare=True,
    )


def plan_product(operator):
    names = Names(operator=operator)
    return of_rule(
        "results/plan/{operator}.json",
        names,
        "plan",
        lambda: recipe(
            code_of("job.py", "cutesnake.stages.inspect.roofline", f"kernels.{operator}.operator"),
            plan=plan_of(names),
            machine=CARDS,
            recorded=CARDS_OF_OTHERS,
        ),
        others=((f"results/inspect/{operator}/roofline.json", "roofline"),),
    )


def build_product(build):
    names = names_of(build)
    return of_rule(
        "results/compile/{operator}/{kernel}/{target}/{variant}/build.json",
        names,
        "compile",
        lambda: recipe_of_build(names),
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
    pattern = f"results/{stage}/{{operator}}/{{kernel}}/{{target}}/{{variant}}/{{workload}}.json"
    return of_rule(pattern, names_of(case.id), stage, lambda: recipe_of_measurement(stage, case))


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
    return of_rule(
        "results/predict/{operator}/{kernel}/{target}/{variant}/{workload}.json",
        names,
        "predict",
        lambda: recipe_of_prediction(case, timing_of(names)),
    )


def anatomy_product(operator):
    names = Names(operator=operator)
    kernels = sorted({build.kernel for build in builds_of(operator)})
    return of_rule(
        "results/anatomy/{operator}",
        names,
        "anatomy",
        lambda: recipe(
            code_of(
                "job.py", "cutesnake.stages.anatomy.folder", *(f"kernels.{operator}.{kernel}" for kernel in kernels)
            ),
            TORCH,
            builds=anatomy_builds_of(names),
        ),
    )


def compared_product(operator):
    return of_rule(
        "results/compare/{operator}.json",
        {"operator": operator},
        "compare",
        lambda: recipe(code_of("job.py", "cutesnake.report.plot"), ("matplotlib",)),
        others=((f"results/compare/{operator}.csv", "table"), (f"results/plot/{operator}", "plot")),
    )


def changed_product(operator):
    names = Names(operator=operator)
    return of_rule(
        "results/change/{operator}.json",
        names,
        "change",
        lambda: recipe(code_of("change.py"), baseline=EXPERIMENT.baseline, content=baseline_digest_of(names)),
        others=((f"results/change/{operator}.csv", "table"),),
    )


def page_product(operator, pattern, linked=()):
    sources = {source for (name, _), source in PLAN.sources.items() if name == operator}
    pins = {source: PINS.get(source) for source in sorted(sources - {OWN, INSTALLED})}
    return of_rule(
        pattern,
        {"operator": operator},
        "page",
        lambda: recipe(
            code_of("job.py", "cutesnake.report.files"),
            front=FRONT_PAGE,
            config=config,
            sweep=asdict(EXPERIMENT.sweeps[operator]),
            pins=pins,
        ),
        linked=linked,
    )


def lesson_product(lesson):
    return of_rule(
        "results/{lesson}.html",
        {"lesson": lesson},
        "page",
        lambda: recipe(
            code_of("job.py", "cutesnake.report.learn.page"),
            TORCH,
            builds=lesson_problems(lesson),
            checks=lesson_checks(lesson),
            own=OWN_KERNELS,
            devices=PLAN.clocks,
        ),
    )


def timeline_product(build):
    return of_rule(
        "results/learn/timelines/{operator}/{kernel}/{target}/{variant}.json",
        names_of(build.id),
        "predict",
        lambda: recipe_of_prediction(timeline_case(build)),
    )


def exercise_product(pattern, names, *modules, **params):
    return of_rule(
        pattern,
        names,
        "page",
        lambda: recipe(
            code_of("job.py", "cutesnake.report.learn.exercises", *modules), ("nvidia-cutlass-dsl", *TORCH), **params
        ),
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
