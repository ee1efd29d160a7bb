"""What rules ask about a build, a case or a batch of cases."""

from dataclasses import asdict

from cutesnake.model.case_id import CaseId
from cutesnake.model.catalog import load_kernel, pin_files
from cutesnake.model.contract import INSTALLED, OWN
from cutesnake.model.record import RecordError, plain
from cutesnake.model.dsls import DSLS
from cutesnake.planning import clocks, nodes
from cutesnake.planning.devices import DeviceError, limits_of
from cutesnake.planning.outputs import recipe
from cutesnake.planning.staleness import code_of, code_of_build, digest_files
from cutesnake.stages.fetch import FetchError, pins_by_file
from cutesnake.stages.simulate import simulation

CHECKING = "cutesnake.stages.measure.correctness"
SIMULATING = "cutesnake.stages.simulate.simulation"
RUNNING = {
    **{"correctness": CHECKING, "timing": "cutesnake.stages.measure.timing"},
    **{"nsys": "cutesnake.stages.profile.nsys", "ncu": "cutesnake.stages.profile.ncu"},
}
TORCH = ("torch", "numpy")
UPSTREAM = str(PROJECT / "kernels/upstream.yaml")
try:
    PIN_FILES = pins_by_file(pin_files())
except FetchError as error:
    sys.exit(str(error))
PINS = {name: pin for name, (_, pin) in PIN_FILES.items()}


class Names(dict):
    """Wildcards of a product, as functions of rules are given them."""

    __getattr__ = dict.__getitem__


def names_of(case):
    """Of a CaseId."""
    return Names(case.wildcards)


def build_of(wildcards):
    """The planned build that wildcards name."""
    return planned(PLAN.builds, build_id(wildcards).key)


def build_id(wildcards):
    return CaseId(wildcards.operator, wildcards.kernel, wildcards.target, wildcards.variant)


def case_id(wildcards):
    """The case that wildcards name: its workload, and the class of nodes that measures it."""
    return CaseId.parse(f"{build_id(wildcards).key}/{wildcards.workload}")


def identity_of(wildcards):
    """The planned case that wildcards name, as plain data."""
    case = case_id(wildcards)
    found = PLAN.planned_case(case)
    if found is None and case.key in PLAN.simulated:
        batch = BATCH_OF[case.path("correctness")]
        sys.exit(f"{case.key} is simulated with all checks of its kernel and target: ask for {batch}")
    return identity(found or planned(PLAN.cases, case.key))


def identity(case):
    """A case as plain data."""
    return {
        "operator": case.build.operator,
        "kernel": case.build.kernel,
        "target": case.build.target,
        "variant": {"id": case.build.variant.id, "params": dict(case.build.variant.params)},
        "parameters": asdict(case.workload),
    }


def class_of(wildcards):
    """The class of nodes that a job is for, which its case or its batch names; none for this machine."""
    if wildcards.get("batch"):
        return batch_of(wildcards).cases[0].place
    return case_id(wildcards).node_class if wildcards.get("workload") else ""


def card_of(wildcards):
    return card_at(class_of(wildcards))


def card_at(place):
    """The fingerprint of the card that a case is measured on; of a class of nodes any card will do."""
    machine = PLAN.places.get(place, MACHINE)
    return nodes.of_a_kind(machine) if place else machine.fingerprint


def asked_of_slurm(what):
    """What a job's class of nodes says about `what`, a field of NodeClass, for Slurm; None where it says nothing."""

    def value(wildcards):
        name = wildcards.get("machine") or class_of(wildcards)
        chosen = CLASSES.get(name) or next((one for one in CLASSES.values() if one.device is None), None)
        return getattr(chosen, what) if chosen else None

    return value


def settings_of(stage, operator):
    """Settings of a stage on a GPU."""
    checking = {"seeds": EXPERIMENT.seeds, "distributions": EXPERIMENT.sweeps[operator].distributions}
    return {"correctness": checking, "timing": EXPERIMENT.timing}.get(stage, {})


def measuring(stage):
    """The arguments of the job that measures a case on a GPU."""
    return lambda wildcards, input, output: {
        "stage": stage,
        "identity": identity_of(wildcards),
        "settings": settings_of(stage, wildcards.operator),
        "build": input.build,
        "output": output.record,
        "checked": input.get("checked", []),
        "timed": input.get("timed", []),
        "log": f"results/log/{stage}/{case_id(wildcards).key}.log",
        "planned_gpu": card_of(wildcards),
    }


def simulation_settings(case):
    chosen = {key: value for key, value in EXPERIMENT.simulation.items() if key != "extent"}
    sweep = EXPERIMENT.sweeps[case.build.operator]
    extent, workload = EXPERIMENT.extent, case.workload
    return {
        **chosen,
        "distributions": sweep.simulated_distributions(extent, workload),
        "schedules": sweep.simulated_schedules(extent, workload, chosen["schedules"]),
    }


def simulated_of(wildcards):
    """Simulated checks of the kernel and target that wildcards name."""
    return planned(SIMULATED_BATCHES, "{0.part}/{0.operator}/{0.kernel}/{0.target}".format(wildcards))


def builds_in(batch):
    return list(dict.fromkeys(case.build.id.path("compile") for case in batch.cases))


def simulated_in(batch):
    """Simulated checks as their job needs them, see measured_in, each with a log of its own."""
    return [
        {
            **in_batch("correctness", case, recipe_of_check(case)),
            "settings": simulation_settings(case),
            "log": f"results/log/correctness/{case.key}.log",
        }
        for case in batch.cases
    ]


def checked_first(wildcards):
    """The case's correctness record where that stage is wanted: what is wrong is not timed."""
    if "correctness" not in EXPERIMENT.stages:
        return []
    (file,) = files_of([case_id(wildcards).path("correctness")])
    return file


def timing_of(wildcards):
    """The case's timing record where this run makes it on this machine; None where it does not."""
    path = case_id(wildcards).path("timing")
    return path if path in HERE_TIMED and snakemake_internals.is_local(workflow) else None


def timed_beside(wildcards):
    """What makes that record: it says what a lone launch of nothing takes on this host."""
    path = timing_of(wildcards)
    return files_of([path]) if path else []


def batch_of(wildcards):
    key = "{0.stage}/{0.operator}/{0.kernel}/{0.target}/{0.variant}/{0.batch}".format(wildcards)
    return planned(BATCHES, key)


def needed_by(stage, case):
    """Correctness records that a case of a batch needs."""
    wanted = stage != "correctness" and "correctness" in EXPERIMENT.stages
    return [case.id.path("correctness")] if wanted else []


def checked_before(batch):
    return files_of(path for case in batch.cases for path in needed_by(batch.stage, case))


def measured_in(batch):
    """Cases of a batch as its job needs them, each with what it depends on besides files."""
    return [in_batch(batch.stage, case, recipe_of_measurement(batch.stage, case)) for case in batch.cases]


def in_batch(stage, case, recipe):
    return {
        "identity": identity(case),
        "build": case.build.id.path("compile"),
        "record": case.id.path(stage),
        "needs": needed_by(stage, case),
        "recipe": recipe,
    }


def timed_first(wildcards):
    """The case's timing record where that stage runs here: a timeline is held against it."""
    return files_of([case_id(wildcards).path("timing")]) if PLAN.stages["timing"].ok else []


def upstream_of(wildcards):
    """The fetched wheel that an upstream kernel comes from; nothing for our own and for installed kernels."""
    source = PLAN.sources[build_of(wildcards).operator, wildcards.kernel]
    return [] if source in (OWN, INSTALLED) else [f"results/fetch/{source}/fetched.json"]


def variant_of(wildcards):
    return dict(build_of(wildcards).variant.params)


def clock_of(wildcards):
    """Digest of the parameters of the card that a build of this target is predicted on."""
    return clocks.clock(PLAN.clocks[wildcards.target])["digest"]


def timings_of(wildcards):
    key = "{0.operator}/{0.kernel}/{0.target}/{0.workload}".format(wildcards)
    return [case.id.path("timing") for case in planned(CHOICES, key)]


def timing_files_of(wildcards):
    return files_of(timings_of(wildcards))


def recipe_of_build(names):
    compilers = DSLS[load_kernel(names.operator, names.kernel).DSL].compilers
    return recipe(code_of_build(names.operator, names.kernel), compilers, variant=variant_of(names))


def recipe_of_figures(names):
    try:
        limits = limits_of(DEVICES, names.target)
    except (DeviceError, RecordError) as error:
        sys.exit(str(error))
    return recipe(code_of("cutesnake.stages.inspect.build"), devices=limits)


def recipe_of_measurement(stage, case):
    """What a check, timing or profile depends on besides files, alike in a job of its own and in a batch."""
    return recipe_of_case(RUNNING[stage], settings_of(stage, case.build.operator), card_at(case.place), case)


def recipe_of_case(module, settings, device, case):
    operator, kernel = case.build.operator, case.build.kernel
    modules = PLAN.places.get(case.place, MACHINE).modules
    needed = {name: modules[name] for name in load_kernel(operator, kernel).NEEDS}
    code = code_of(module, f"kernels.{operator}.{kernel}")
    params = {"settings": settings, "device": device, "identity": identity(case)}
    return recipe(code, TORCH, **params, **({"packages": needed} if needed else {}))


def recipe_of_prediction(case, timing=None):
    build = case.build
    return recipe(
        code_of("job.py", "cutesnake.stages.predict.prediction", f"kernels.{build.operator}.{build.kernel}"),
        TORCH,
        identity=identity(case),
        device=PLAN.clocks[build.target],
        clock=clock_of(build),
        validated=digest_files(validation()),
        timing=timing,
    )


def recipe_of_check(case):
    return recipe_of_case(SIMULATING, simulation_settings(case), simulation.NAME, case)
