"""The matrix: from configuration and machine to builds, cases and everything that is left out, with reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cutesnake.contract import INSTALLED, Variant, Workload, load_kernel, load_operator, needs
from cutesnake.plan.arch import Answer, Decision, decide, stage_answers
from cutesnake.plan.config import dtypes_for, is_named, simulated_workloads, workloads
from cutesnake.plan.machine import Machine

GPU_STAGES = ("correctness", "timing", "nsys", "ncu")


@dataclass(frozen=True)
class Build:
    """One kernel compiled for one target as one variant."""

    operator: str
    kernel: str
    target: str
    variant: Variant

    @property
    def key(self) -> str:
        return f"{self.operator}/{self.kernel}/{self.target}/{self.variant.id}"


@dataclass(frozen=True)
class Case:
    """A build run on a workload."""

    build: Build
    workload: Workload

    @property
    def key(self) -> str:
        return f"{self.build.key}/{self.workload.id}"


@dataclass
class Plan:
    """Everything asked for: what will be done, and what will not with its reason."""

    machine: Machine
    decisions: list[Decision] = field(default_factory=list)
    stages: dict[str, Answer] = field(default_factory=dict)
    dtypes: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # operator -> target -> asked for there
    workloads: dict[str, list[Workload]] = field(default_factory=dict)
    builds: dict[str, Build] = field(default_factory=dict)
    cases: dict[str, Case] = field(default_factory=dict)  # every supported one, whether or not it can run here
    simulated: dict[str, Case] = field(default_factory=dict)  # checked by ptxsim, for want of the target's card
    unsupported: list[dict[str, str]] = field(default_factory=list)
    profiled: set[str] = field(default_factory=set)
    sources: dict[tuple[str, str], str] = field(default_factory=dict)  # (operator, kernel) -> "ours" or upstream key

    def run_here(self, stage: str) -> Iterator[Case]:
        """Cases whose `stage` runs on this machine: these are the jobs, all others are rows with a reason."""
        if not self.stages[stage].ok:
            return
        runnable = {(d.operator, d.kernel, d.target) for d in self.decisions if d.run.ok}
        for case in self.cases.values():
            build = case.build
            chosen = stage not in ("nsys", "ncu") or case.workload.id in self.profiled
            if chosen and (build.operator, build.kernel, build.target) in runnable:
                yield case

    def case(self, key: str) -> Case:
        """A case by its key, of the sweep or simulated; KeyError if it is not planned."""
        return self.simulated[key] if key in self.simulated else self.cases[key]

    def choices(self) -> dict[str, list[Case]]:
        """operator/kernel/target/workload -> cases timed here, where there are variants to choose from."""
        found: dict[str, list[Case]] = {}
        for case in self.run_here("timing"):
            build = case.build
            found.setdefault(f"{build.operator}/{build.kernel}/{build.target}/{case.workload.id}", []).append(case)
        return {key: cases for key, cases in found.items() if len(cases) > 1}

    def as_dict(self) -> dict[str, Any]:
        """For arch.json, as plain data: what concerns the whole run."""
        return {"stages": self._answers(), "operators": list(self.workloads)}

    def of(self, operator: str) -> dict[str, Any]:
        """For results/plan/<operator>.json, as plain data: what concerns one operator."""
        return {
            "operator": operator,
            "axis": _axis(operator, self.workloads[operator]),
            "stages": self._answers(),
            "decisions": [decision.as_dict() for decision in self.decisions if decision.operator == operator],
            "sources": {kernel: source for (name, kernel), source in self.sources.items() if name == operator},
            "workloads": {w.id: asdict(w) for w in self.workloads[operator]},
            "dtypes": self.dtypes[operator],
            "builds": [
                {
                    "operator": b.operator,
                    "kernel": b.kernel,
                    "target": b.target,
                    "variant": {"id": b.variant.id, "params": dict(b.variant.params)},
                }
                for b in self.builds.values()
                if b.operator == operator
            ],
            "cases": _named(self.cases, operator),
            "simulated_cases": _named(self.simulated, operator),
            "unsupported": [entry for entry in self.unsupported if entry["operator"] == operator],
            "profiled": [w.id for w in self.workloads[operator] if w.id in self.profiled],
        }

    def _answers(self) -> list[dict[str, Any]]:
        return [{"stage": stage, **asdict(answer)} for stage, answer in self.stages.items()]


def _named(cases: dict[str, Case], operator: str) -> list[dict[str, str]]:
    mine = (case for case in cases.values() if case.build.operator == operator)
    return [{"build": case.build.key, "workload": case.workload.id} for case in mine]


def _axis(operator: str, found: list[Workload]) -> dict[str, str]:
    """What an operator's pictures are drawn along: its own choice, else the number that takes most values."""
    module = load_operator(operator)
    numbers = [key for key, value in asdict(found[0]).items() if type(value) is int] if found else []
    most = max(numbers, key=lambda key: len({getattr(w, key) for w in found}), default="")
    field = getattr(module, "AXIS", most)
    return {"field": field, "label": getattr(module, "AXIS_LABEL", field.replace("_", " "))}


def modules_needed(config: dict[str, Any]) -> dict[str, str]:
    """Python packages that kernels of the configuration bring along: import name -> name of the distribution."""
    kernels = ((operator, name) for operator, section in config["operators"].items() for name in section["kernels"])
    return {name: distribution for kernel in kernels for name, distribution in needs(load_kernel(*kernel)).items()}


def make_plan(config: dict[str, Any], machine: Machine, results: Path) -> Plan:
    """Cross operators, kernels, targets, workloads and variants; ask each kernel what it supports."""
    plan = Plan(machine, stages=stage_answers(machine, config["stages"]))
    for operator, section in config["operators"].items():
        plan.workloads[operator] = workloads(config, operator)
        plan.dtypes[operator] = {target: dtypes_for(section, target) for target in config["targets"]}
        plan.profiled |= {w.id for w in plan.workloads[operator] if is_named(w, config["profile"]["workloads"])}
        for kernel in section["kernels"]:
            _add_kernel(plan, config, operator, kernel, results)
    return plan


def _add_kernel(plan: Plan, config: dict[str, Any], operator: str, kernel: str, results: Path) -> None:
    module = load_kernel(operator, kernel)
    plan.sources[operator, kernel] = module.SOURCE
    supported = []
    asked = {dtype for target in module.TARGETS for dtype in plan.dtypes[operator].get(target, [])}
    for workload in plan.workloads[operator]:
        if workload.dtype not in asked:
            continue
        reason = module.supports(workload)
        if reason is None:
            supported.append(workload)
        else:
            plan.unsupported.append({"operator": operator, "kernel": kernel, "workload": workload.id, "reason": reason})
    every = config["operators"][operator].get("variants", "default") == "all"
    written = [target for target in config["targets"] if target in module.TARGETS]
    for target in written if module.SOURCE == INSTALLED and written else config["targets"]:
        built = any((results / "compile" / operator / kernel / target).glob("*/build.json"))
        decision = decide(plan.machine, operator, kernel, module, target, built)
        plan.decisions.append(decision)
        # A kernel that a package brings along has cases without it too: recorded sets may have measured them.
        if not decision.build.ok and not (target in module.TARGETS and needs(module)):
            continue
        for workload in supported:
            if workload.dtype not in plan.dtypes[operator][target]:
                continue
            candidates = module.variants(workload, target)
            for variant in candidates if every else candidates[:1]:
                build = Build(operator, kernel, target, variant)
                if decision.build.ok:
                    build = plan.builds.setdefault(build.key, build)
                case = Case(build, workload)
                plan.cases[case.key] = case
        if decision.simulate.ok and not decision.run.ok and "correctness" in config["stages"]:
            _add_simulated(plan, config, operator, kernel, target)


def _add_simulated(plan: Plan, config: dict[str, Any], operator: str, kernel: str, target: str) -> None:
    """Simulated cases of a kernel, with a build of the sweep where one of the workload's candidates is among them."""
    module = load_kernel(operator, kernel)
    for workload in simulated_workloads(config, operator):
        if workload.dtype not in plan.dtypes[operator][target] or module.supports(workload) is not None:
            continue
        candidates = [Build(operator, kernel, target, variant) for variant in module.variants(workload, target)]
        build = next((plan.builds[b.key] for b in candidates if b.key in plan.builds), candidates[0])
        plan.builds.setdefault(build.key, build)
        case = Case(build, workload)
        plan.simulated[case.key] = case
