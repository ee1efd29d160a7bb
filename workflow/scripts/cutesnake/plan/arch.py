"""The arch check: per kernel and target, can it be built, can it run here, and if not, why, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cutesnake.contract import needs
from cutesnake.plan.machine import Device, Machine

# target -> compute capability; the `a` of a target ties it to exactly this one (CUDA C++ programming guide, 5.1.2.2)
TARGET_CAPABILITY = {"sm_90a": (9, 0), "sm_100a": (10, 0), "sm_103a": (10, 3), "sm_120a": (12, 0)}

# compute capability -> the features kernels ask for by name in TARGETS (PTX ISA 9.x, target notes of each instruction)
FEATURES: Mapping[tuple[int, int], frozenset[str]] = {
    (8, 0): frozenset({"mma"}),
    (8, 6): frozenset({"mma"}),
    (8, 9): frozenset({"mma"}),
    (9, 0): frozenset({"mma", "TMA", "wgmma"}),
    (10, 0): frozenset({"mma", "TMA", "tcgen05", "tensor memory"}),
    (10, 3): frozenset({"mma", "TMA", "tcgen05", "tensor memory"}),
    (12, 0): frozenset({"mma", "TMA"}),
}

DSL_PACKAGES = {
    "cute": ("nvidia-cutlass-dsl",),
    "cutile": ("cuda-tile", "nvidia-cuda-tileiras"),
    "torch": (),
    "cuda": (),
}
RUN_PACKAGES = {
    "cute": ("torch", "apache-tvm-ffi"),
    "cutile": ("torch", "cuda-bindings"),
    "torch": ("torch",),
    "cuda": ("torch",),
}

# Targets that ptxsim executes, with the multiprocessors of the card that it stands for there: an H200, a B200.
SIMULATED_PROCESSORS = {"sm_90a": 132, "sm_100a": 148}
SIMULATION_PACKAGES = ("torch",)  # any build of it
C_COMPILERS = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class Answer:
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
    build: Answer
    run: Answer
    simulate: Answer  # whether ptxsim can check it here; asked where it cannot run

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def decide(machine: Machine, operator: str, kernel: str, module: Any, target: str, built: bool) -> Decision:
    """Decide for one kernel and target; `built` says that its builds lie on disk already (copied from elsewhere)."""
    build = can_build(machine, module, target, built)
    run = can_run(machine, module, target) if target in module.TARGETS else Answer(False, build.reason)
    if run.ok and not build.ok:
        run = Answer(False, build.reason)
    simulate = can_simulate(machine, module, target) if build.ok else Answer(False, build.reason)
    return Decision(operator, kernel, module.DSL, module.SOURCE, target, build, run, simulate)


def can_build(machine: Machine, module: Any, target: str, built: bool) -> Answer:
    """Building needs the DSL, not the GPU."""
    if target not in module.TARGETS:
        return Answer(False, f"not written for {target}: {_written_for(module.TARGETS)}")
    if reason := _not_importable(machine, module):
        return Answer(False, reason)
    lacking = [package for package in DSL_PACKAGES[module.DSL] if not machine.packages.get(package)]
    if lacking and not built:
        return Answer(
            False,
            f"{join(lacking)} is not installed here: build on a machine that has it and copy the folder",
        )
    return Answer(True)


def _not_importable(machine: Machine, module: Any) -> str | None:
    """Why a kernel that a Python package brings along is not here; such a kernel has nothing to build either."""
    lacking = [name for name in needs(module) if not machine.modules.get(name)]
    if not lacking:
        return None
    return f"{join(lacking)} is not importable here: its kernel is timed where that Python package is installed"


def _written_for(targets: Mapping[str, str]) -> str:
    return "it is for " + join([f"{target} ({needs})" if needs else target for target, needs in targets.items()])


def can_run(machine: Machine, module: Any, target: str) -> Answer:
    """Running needs a GPU of exactly the target's compute capability and the packages that load a build."""
    device = machine.device
    if device is None:
        return Answer(False, f"no GPU here: {machine.problem or 'none selected'}")
    if device.compute_capability != TARGET_CAPABILITY[target]:
        return Answer(False, _mismatch(device, target, module.TARGETS[target]))
    if reason := _not_importable(machine, module):
        return Answer(False, reason)
    lacking = [package for package in RUN_PACKAGES[module.DSL] if not machine.packages.get(package)]
    if lacking:
        return Answer(False, f"{join(lacking)} is not installed here: running needs it")
    if (machine.packages.get("torch") or "").endswith("+cpu"):
        return Answer(False, f"torch {machine.packages['torch']} is a CPU build: running needs one built for CUDA")
    return Answer(True)


def can_simulate(machine: Machine, module: Any, target: str) -> Answer:
    """ptxsim captures the launches of CuTe builds, for which it needs a C compiler, and keeps tensors with torch."""
    if module.DSL == "torch":
        return Answer(False, "PyTorch's own kernels come with its library: there is no build to simulate")
    if module.DSL == "cuda":
        return Answer(False, "its kernels come compiled with their package: there is no build to simulate")
    if module.DSL == "cutile":
        return Answer(
            False,
            "cuTile's TMA descriptors are made by the driver at launch, so ptxsim, which has no driver, cannot "
            "simulate its builds",
        )
    if target not in SIMULATED_PROCESSORS:
        return Answer(False, f"ptxsim simulates {join(list(SIMULATED_PROCESSORS))}, not {target}")
    lacking = [package for package in SIMULATION_PACKAGES if not machine.packages.get(package)]
    if not any(machine.tools.get(tool) for tool in C_COMPILERS):
        lacking.append(f"a C compiler ({', '.join(C_COMPILERS)})")
    if lacking:
        return Answer(False, f"{join(lacking)} is not installed here: checking by simulation needs it")
    return Answer(True)


def _mismatch(device: Device, target: str, needs: str) -> str:
    here = f"this device is {_article(device.name)}, {device.sm}"
    exact = "code for {} runs on compute capability {}.{} only".format(target, *TARGET_CAPABILITY[target])
    if not needs:
        return f"{exact}; {here}"
    start = f"needs {target} for {needs}; {here}"
    if device.compute_capability not in FEATURES:
        return f"{start}, an architecture this version does not know"
    wanted = re.split(r", | and ", needs)
    missing = [feature for feature in wanted if feature not in FEATURES[device.compute_capability]]
    if not missing:
        return f"{start}, and {exact}"
    if len(missing) == len(wanted):
        return f"{start}, which has {({1: 'no ' + needs, 2: 'neither'}).get(len(wanted), 'none of them')}"
    return f"{start}, which has no {join(missing)}"


def _article(name: str) -> str:
    bare = name.removeprefix("NVIDIA ").removeprefix("GeForce ")
    return f"an {bare}" if bare[0] in "AEFHILMNORSX8" else f"a {bare}"


def stage_answers(machine: Machine, stages: list[str]) -> dict[str, Answer]:
    """Per GPU stage of the configuration: can this machine do it at all, kernels aside?"""
    needs = {"nsys": "nsys", "ncu": "ncu"}
    answers = {}
    for stage in ("correctness", "timing", "nsys", "ncu"):
        if stage not in stages:
            answers[stage] = Answer(False, f"{stage} is not among the stages of the configuration")
        elif machine.device is None:
            answers[stage] = Answer(False, f"no GPU here: {machine.problem or 'none selected'}")
        elif stage in needs and not machine.tools.get(needs[stage]):
            answers[stage] = Answer(
                False, f"{needs[stage]} is not installed here (not on the PATH, not in Nsight Compute)"
            )
        elif stage == "timing" and not machine.packages.get("cuda-bench"):
            answers[stage] = Answer(False, "cuda-bench is not installed here: timing needs it")
        elif stage == "ncu" and not machine.packages.get("ncu-report"):
            answers[stage] = Answer(False, "ncu-report is not installed here: reading profiles needs it")
        else:
            answers[stage] = Answer(True)
    return answers
