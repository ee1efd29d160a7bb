"""What toolchains make: an environment each, a record per kernel and target, a matrix."""

from cutesnake.planning import toolchains
from cutesnake.stages.compile.compile import LIMIT_SECONDS

TOOLCHAINS = {one.name: one for one in EXPERIMENT.toolchains}
TOOLCHAIN_MATRIX, TOOLCHAIN_PAGE = "results/toolchains/matrix.json", "results/report/toolchains.html"


def toolchain_kernels():
    """operator/kernel/target -> builds that toolchains are compared with."""
    chosen = recorded_builds.defaults_of(PLAN) if EXPERIMENT.gate["builds"] == "default" else PLAN.builds
    kernels = {}
    for key, build in PLAN.builds.items():
        dsl = load_kernel(build.operator, build.kernel).DSL
        if key in chosen and any(one.replaces(dsl) for one in TOOLCHAINS.values()):
            kernels.setdefault(build.id.family, []).append(build)
    return kernels


TOOLCHAIN_KERNELS = toolchain_kernels() if TOOLCHAINS else {}
TOOLCHAIN_BUILDS = {
    f"results/toolchains/{name}/{key}.json": (name, builds)
    for name, one in TOOLCHAINS.items()
    for key, builds in TOOLCHAIN_KERNELS.items()
    if name == toolchains.MAIN or one.replaces(load_kernel(builds[0].operator, builds[0].kernel).DSL)
}


def environment_of(name):
    """The record of a toolchain's environment; none for the main one."""
    planned(TOOLCHAINS, name)
    return [] if name == toolchains.MAIN else [f"results/toolchains/{name}/environment.json"]


TOOLCHAIN_PAGES = [
    f"results/report/toolchains/{operator}.html"
    for operator in dict.fromkeys(builds[0].operator for builds in TOOLCHAIN_KERNELS.values())
]
TIMED_HERE = {}
for case in ON_CARDS["timing"] if TOOLCHAINS else ():
    TIMED_HERE.setdefault(case.build.id.key, []).append(case)
ENVIRONMENTS = [path for name in TOOLCHAINS for path in environment_of(name)]


def recipe_of_environment(name):
    one = TOOLCHAINS[name]
    return recipe(
        code_of("job.py", "cutesnake.stages.toolchain.environment"),
        pins=one.pins,
        hashed=one.hashed,
        python=[sys.version, sys.prefix],
    )


def beside(name, path):
    return f"results/toolchains/{name}/{path.removeprefix('results/')}"


def asked_of_toolchain(wildcards):
    """What the job of a toolchain, kernel and target does, in the order of its script."""
    name = wildcards.toolchain
    path = f"results/toolchains/{name}/{wildcards.operator}/{wildcards.kernel}/{wildcards.target}.json"
    asked = {"dsl": load_kernel(wildcards.operator, wildcards.kernel).DSL}
    asked |= {part: [] for part in ("jobs", "checks", "predictions", "measured", "builds")}
    _, builds = planned(TOOLCHAIN_BUILDS, path)
    for build in builds:
        kept = standing_for(build.key) if name == toolchains.MAIN else {}
        if "compile" in kept:
            asked["builds"].append(kept)
            continue
        built, figures = beside(name, build.id.path("compile")), beside(name, build.id.path("inspect"))
        names = names_of(build.id)
        asked["jobs"].append(
            {
                **{part: getattr(build, part) for part in ("operator", "kernel", "target")},
                "variant": {"id": build.variant.id, "params": variant_of(names)},
                "folder": str(Path(built).parent),
                "recipe": (
                    {**recipe_of_build(names), "versions": dict(TOOLCHAINS[name].pins)}
                    if TOOLCHAINS[name].pins
                    else recipe_of_build(names)
                ),
                "upstream": upstream_of(names),
                "figures": figures,
                "figures_recipe": recipe_of_figures(names),
                "devices": DEVICES,
                "log": f"results/log/toolchains/{name}/{build.id.key}.log",
                "limit_s": config.get("compile", {}).get("max_seconds", LIMIT_SECONDS),
            }
        )
        records = {"compile": built, "inspect": figures, "checks": [], "predictions": [], "times": [], **kept}
        compared = {} if kept else recorded_builds.compared(PLAN, build)
        if case := compared.get(kept_builds.CHECK):
            one = in_batch("correctness", case, recipe_of_check(case))
            one |= {"build": built, "record": beside(name, one["record"]), "needs": []}
            log = f"results/log/toolchains/{name}/{case.id.key}.log"
            asked["checks"].append({"case": one, "settings": simulation_settings(case), "log": log})
            records["checks"].append(one["record"])
        if case := compared.get(kept_builds.PREDICTION):
            output = beside(name, case.id.path("predict"))
            settings = {"device": PLAN.clocks[case.build.target]}
            asked["predictions"].append(
                {"identity": identity(case), "settings": settings, "build": built, "output": output}
            )
            records["predictions"].append(output)
        for case in measured_here(build):
            check, time = (measured_beside(name, stage, case) for stage in ("correctness", "timing"))
            time["case"]["needs"] = [check["case"]["record"]]
            asked["measured"] += [check, time]
            records["checks"].append(check["case"]["record"])
            records["times"].append(time["case"]["record"])
        asked["builds"].append(records)
    return asked


@functools.cache
def standing_for(key):
    """Records of a build of the main toolchain that need not be made; empty if all must, without `compile` if it must."""
    build = PLAN.builds[key]
    if EXPERIMENT.recorded == "ignore" or measured_here(build):
        return {}
    names = recorded_builds.standing_for(PLAN, build, KEPT_FOLDER, RECIPES)
    if not names:
        return {}
    checks, predictions = (
        [one for one in names if one.startswith(f"{stage}/")] for stage in (kept_builds.CHECK, kept_builds.PREDICTION)
    )
    built = {stage: stage for stage in (kept_builds.COMPILE, kept_builds.INSPECT) if stage in names}
    records = {**built, "checks": checks, "predictions": predictions, "times": []}
    return records | {"recorded": [str(KEPT_FOLDER / f"{build.operator}.jsonl"), key]}


def measured_here(build):
    """The case of a build that is timed on this machine's GPU; none without one."""
    return [case for case in TIMED_HERE.get(build.id.key, ()) if not case.place][:1]


def measured_beside(name, stage, case):
    """What a stage on the GPU does with a toolchain's build."""
    settings = settings_of(stage, case.build.operator)
    one = in_batch(stage, case, recipe_of_measurement(stage, case))
    one |= {"build": beside(name, one["build"]), "record": beside(name, one["record"]), "needs": []}
    return {"stage": stage, "case": one, "settings": settings, "planned_gpu": MACHINE.fingerprint}


def gpus_of_toolchain(wildcards):
    builds = TOOLCHAIN_KERNELS.get("{0.operator}/{0.kernel}/{0.target}".format(wildcards), ())
    return int(any(map(measured_here, builds)))


def toolchain_products():
    for name in TOOLCHAINS:
        if environment_of(name):
            yield of_rule(
                "results/toolchains/{toolchain}/environment.json",
                {"toolchain": name},
                "environment",
                lambda name=name: recipe_of_environment(name),
            )
    for name, builds in TOOLCHAIN_BUILDS.values():
        names = Names(names_of(builds[0].id), toolchain=name)
        yield of_rule(
            "results/toolchains/{toolchain}/{operator}/{kernel}/{target}.json",
            names,
            "toolchain",
            lambda names=names: recipe(
                code_of("toolchain.py", f"kernels.{names.operator}.{names.kernel}"),
                TORCH,
                asked=asked_of_toolchain(names),
            ),
        )
    if TOOLCHAINS:
        yield of_rule(
            TOOLCHAIN_MATRIX,
            {},
            "toolchains",
            lambda: recipe(
                code_of("job.py", "cutesnake.report.toolchains"), toolchains=list(TOOLCHAINS), limits=gate_limits()
            ),
            others=tuple((page, "page") for page in (TOOLCHAIN_PAGE, *TOOLCHAIN_PAGES)),
        )


def toolchain_upstream(wildcards):
    source = PLAN.sources[wildcards.operator, wildcards.kernel]
    return [] if source in (OWN, INSTALLED) else [f"results/fetch/{source}/fetched.json"]


def gate_limits():
    return {name: value for name, value in EXPERIMENT.gate.items() if name != "builds"}
