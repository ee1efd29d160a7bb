"""Decide per kernel and target whether it can be built and run, and why not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutesnake.model.contract import Kernel
from cutesnake.model.dsls import DSLS
from cutesnake.model.stages import GPU_STAGES
from cutesnake.model.targets import FEATURES, TARGETS
from cutesnake.planning.gpus import Device
from cutesnake.planning.machine import Machine

C_COMPILERS = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class Ability:
    """Yes, or no with its reason."""

    ok: bool
    reason: str | None = None


@dataclass(frozen=True)
class Decision:
    """What the arch check says of one kernel on one target."""

    operator: str
    kernel: str
    dsl: str
    source: str
    target: str
    build: Ability
    run: Ability
    simulate: Ability  # whether ptxsim can check it here; asked where it cannot run


def join(text: Sequence[str]) -> str:
    """Join words by commas and a last "and"."""
    return text[0] if len(text) == 1 else f"{', '.join(text[:-1])} and {text[-1]}"


def decide(
    machine: Machine,
    operator: str,
    kernel: str,
    module: Kernel,
    target: str,
    built: bool,
    places: Iterable[Machine] | None = None,
) -> Decision:
    """Decide for one kernel and target; `built`: its builds are on disk already.

    `machine` builds and simulates; cases run on one of `places`, where none are given on it as well.
    """
    build = can_build(machine, module, target, built)
    places = [machine] if places is None else list(places)
    run = _first_ok(can_run(place, module, target) for place in places) if target in module.TARGETS else build
    if run.ok and not build.ok:
        run = Ability(False, build.reason)
    simulate = can_simulate(machine, module, target) if build.ok else Ability(False, build.reason)
    return Decision(operator, kernel, module.DSL, module.SOURCE, target, build, run, simulate)


def _first_ok(replies: Iterable[Ability]) -> Ability:
    """Return the first that is ok, else the first."""
    result = list(replies)
    return next((reply for reply in result if reply.ok), result[0])


def can_build(machine: Machine, module: Kernel, target: str, built: bool) -> Ability:
    """Return whether a kernel can be built: it needs its DSL, not the GPU."""
    if target not in module.TARGETS:
        written = join([f"{name} ({join(needs)})" if needs else name for name, needs in module.TARGETS.items()])
        return Ability(False, f"not written for {target}: it is for {written}")
    if reason := _not_importable(machine, module):
        return Ability(False, reason)
    lacking = [package for package in DSLS[module.DSL].build_packages if not machine.packages.get(package)]
    if lacking and not built:
        return Ability(
            False,
            f"{join(lacking)} is not installed here: build on a machine that has it, with "
            "`compile={baked_sizes: all}`, and copy the folder",
        )
    return Ability(True)


def _not_importable(machine: Machine, module: Kernel) -> str | None:
    """Return why an installed kernel's package is missing, None if it is importable."""
    lacking = [name for name in module.NEEDS if not machine.modules.get(name)]
    if not lacking:
        return None
    return f"{join(lacking)} is not importable here: its kernel is timed where that Python package is installed"


def can_run(machine: Machine, module: Kernel, target: str) -> Ability:
    """Return whether a GPU of the target and the packages that load builds exist."""
    device = machine.device
    if device is None:
        return Ability(False, f"no GPU here: {machine.problem or 'none selected'}")
    if device.compute_capability != TARGETS[target].capability:
        return Ability(False, _mismatch(device, target, module.TARGETS[target]))
    if reason := _not_importable(machine, module):
        return Ability(False, reason)
    lacking = [package for package in DSLS[module.DSL].run_packages if not machine.packages.get(package)]
    if lacking:
        return Ability(False, f"{join(lacking)} is not installed here: running needs it")
    if (machine.packages.get("torch") or "").endswith("+cpu"):
        return Ability(False, f"torch {machine.packages['torch']} is a CPU build: running needs one built for CUDA")
    return Ability(True)


def can_simulate(machine: Machine, module: Kernel, target: str) -> Ability:
    """Return whether ptxsim, a C compiler and torch can execute the builds."""
    dsl = DSLS[module.DSL]
    if dsl.not_simulated:
        return Ability(False, dsl.not_simulated)
    if TARGETS[target].simulated_processors is None:
        known = [name for name, target in TARGETS.items() if target.simulated_processors]
        return Ability(False, f"ptxsim simulates {join(known)}, not {target}")
    lacking = [package for package in dsl.simulation_packages if not machine.packages.get(package)]
    if not any(machine.tools.get(tool) for tool in C_COMPILERS):
        lacking.append(f"a C compiler ({', '.join(C_COMPILERS)})")
    if lacking:
        return Ability(False, f"{join(lacking)} is not installed here: checking by simulation needs it")
    return Ability(True)


def _mismatch(device: Device, target: str, needs: tuple[str, ...]) -> str:
    local = f"this device is {_article(device.name)}, {device.sm}"
    exact = "code for {} runs on compute capability {}.{} only".format(target, *TARGETS[target].capability)
    if not needs:
        return f"{exact}; {local}"
    start = f"needs {target} for {join(needs)}; {local}"
    if device.compute_capability not in FEATURES:
        return f"{start}, an architecture this version does not know"
    missing = [feature for feature in needs if feature not in FEATURES[device.compute_capability]]
    if not missing:
        return f"{start}, and {exact}"
    if len(missing) == len(needs):
        return f"{start}, which has {({1: 'no ' + needs[0], 2: 'neither'}).get(len(needs), 'none of them')}"
    return f"{start}, which has no {join(missing)}"


def _article(name: str) -> str:
    bare = name.removeprefix("NVIDIA ").removeprefix("GeForce ")
    return f"an {bare}" if bare[0] in "AEFHILMNORSX8" else f"a {bare}"


def stage_abilities(places: Iterable[Machine], stages: list[str]) -> dict[str, Ability]:
    """Return per configured GPU stage whether one of the places can run it."""
    places = list(places)
    return {name: _first_ok(stage_ability(place, name, name in stages) for place in places) for name in GPU_STAGES}


def stage_ability(machine: Machine, name: str, asked: bool) -> Ability:
    """Return whether a machine can run a GPU stage that is `asked` for."""
    stage = GPU_STAGES[name]
    if not asked:
        return Ability(False, f"{name} is not among the stages of the configuration")
    if machine.device is None:
        return Ability(False, f"no GPU here: {machine.problem or 'none selected'}")
    if stage.tool and not machine.tools.get(stage.tool):
        return Ability(False, f"{stage.tool} is not installed here (not on the PATH, not in Nsight Compute)")
    if stage.package and not machine.packages.get(stage.package):
        return Ability(False, f"{stage.package} is not installed here: {stage.package_for}")
    return Ability(True)
