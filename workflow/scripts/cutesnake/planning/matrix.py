"""Derive builds, cases and omissions with reasons from configuration and machine."""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from cutesnake.model.case_id import CaseId
from cutesnake.model.catalog import ContractError, blame, kernel_file, label, load_kernel, load_operator
from cutesnake.model.contract import INSTALLED, Kernel, Variant, Workload
from cutesnake.model.dsls import UNKNOWN
from cutesnake.model.stages import PROFILES
from cutesnake.model.targets import TARGETS, resolve_local_target
from cutesnake.planning import kernel_queries
from cutesnake.planning.arch import Ability, Decision, can_run, decide, join, stage_abilities, stage_ability
from cutesnake.planning.config import ConfigError, Experiment
from cutesnake.planning.machine import Machine
from cutesnake.planning.sweep import Sweep


@dataclass(frozen=True)
class Build:
    """One kernel compiled for one target as one variant."""

    operator: str
    kernel: str
    target: str
    variant: Variant

    @property
    def id(self) -> CaseId:
        """Return the CaseId of the build."""
        return CaseId(self.operator, self.kernel, self.target, self.variant.id)

    @property
    def key(self) -> str:
        """Return the key of the build."""
        return self.id.key


LOCAL_PLACE = ""  # the place that is this machine


@dataclass(frozen=True)
class PlannedCase:
    """A build run on a workload, by a class of nodes or by this machine."""

    build: Build
    workload: Workload
    place: str = LOCAL_PLACE

    @property
    def id(self) -> CaseId:
        """Return the CaseId of the case."""
        build = self.build  # `replace` on its id would take twice as long, and is done for every case
        return CaseId(build.operator, build.kernel, build.target, build.variant.id, self.workload.id, self.place)

    @property
    def key(self) -> str:
        """Return the key of the case."""
        return self.id.key


@dataclass
class Plan:
    """Everything asked for: what will be done, and what will not with its reason."""

    machine: Machine
    decisions: list[Decision] = field(default_factory=list)
    stages: dict[str, Ability] = field(default_factory=dict)
    dtypes: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # operator -> target -> asked for there
    workloads: dict[str, list[Workload]] = field(default_factory=dict)
    axes: dict[str, dict[str, str]] = field(default_factory=dict)  # operator -> field of its Workload, label
    builds: dict[str, Build] = field(default_factory=dict)
    cases: dict[str, PlannedCase] = field(default_factory=dict)  # every supported one, whether or not it can run here
    stand_ins: dict[str, str] = field(default_factory=dict)  # build that is not made -> one of its group
    simulated: dict[str, PlannedCase] = field(default_factory=dict)  # checked by ptxsim, without a GPU of the target
    unsupported: list[dict[str, str]] = field(default_factory=list)
    profiled: set[str] = field(default_factory=set)
    operators: list[str] = field(default_factory=list)  # of the configuration, also those that are not planned
    clocks: dict[str, str] = field(default_factory=dict)  # target -> the GPU that is predicted for
    foreseen: set[tuple[str, str, str]] = field(default_factory=set)  # (operator, kernel, workload) that are predicted
    foreseen_always: set[tuple[str, str]] = field(default_factory=set)  # of these, the ones that no record replaces
    sources: dict[tuple[str, str], str] = field(default_factory=dict)  # (operator, kernel) -> OWN or upstream key
    broken: dict[tuple[str, str], str] = field(default_factory=dict)  # kernels that break their contract -> how
    # Of the builds, those that this run makes, and those shown from records: see recorded_builds.py.
    live: list[str] = field(default_factory=list)
    kept: dict[str, tuple[str, ...]] = field(default_factory=dict)
    checking: list[str] = field(default_factory=list)  # cases that this run simulates itself
    predicting: list[str] = field(default_factory=list)  # cases that this run predicts itself
    # Where cases run: this machine, or what a job found on a node of each class.
    places: dict[str, Machine] = field(default_factory=dict)
    running: dict[str, list[str]] = field(default_factory=dict)  # operator/kernel/target -> places that run it

    def cases_to_run(self, stage: str) -> Iterator[PlannedCase]:
        """Yield the cases whose `stage` is a job of this run, once per place."""
        able = {name for name, place in self.places.items() if stage_ability(place, stage, self.stages[stage].ok).ok}
        for case in self.cases.values():
            if stage in PROFILES and case.workload.id not in self.profiled:
                continue
            build = case.build
            for place in self.running.get(build.id.family, ()):
                if place in able:
                    yield replace(case, place=place) if place else case

    def planned_case(self, asked: CaseId) -> PlannedCase | None:
        """Return the planned case of an id on any place, None without one."""
        case = self.cases.get(replace(asked, node_class=LOCAL_PLACE).key)
        return replace(case, place=asked.node_class) if case and asked.node_class in self.places else None

    def predicted(self) -> Iterator[PlannedCase]:
        """Yield cases that ptxsim's clock predicts, with or without a GPU here."""
        able = {(d.operator, d.kernel, d.target) for d in self.decisions if d.simulate.ok and d.target in self.clocks}
        for case in self.cases.values():
            build = case.build
            wanted = (build.operator, build.kernel, case.workload.id) in self.foreseen
            if wanted and (build.operator, build.kernel, build.target) in able:
                yield case

    @functools.cached_property
    def checks_of_builds(self) -> dict[str, list[PlannedCase]]:
        """Build -> its simulated cases, of a complete plan."""
        return _by_build(self.simulated.values())

    @functools.cached_property
    def predictions_of_builds(self) -> dict[str, list[PlannedCase]]:
        """Build -> its predicted cases, of a complete plan."""
        return _by_build(self.predicted())

    def case(self, key: str) -> PlannedCase:
        """Return a case of the sweep, or a simulated one, by key; KeyError otherwise."""
        return self.simulated[key] if key in self.simulated else self.cases[key]

    def choices(self) -> dict[str, list[PlannedCase]]:
        """operator/kernel/target/workload -> cases timed here, where there are variants to choose from."""
        matches: dict[str, list[PlannedCase]] = {}
        for case in self.cases_to_run("timing"):
            one = case.id
            matches.setdefault(f"{one.family}/{one.wildcards['workload']}", []).append(case)
        return {key: cases for key, cases in matches.items() if len(cases) > 1}

    def as_dict(self) -> dict[str, Any]:
        """For arch.json, as plain data: what concerns the whole run."""
        plan = {"stages": self._stage_rows(), "operators": self.operators}
        classes = [self._class(name, place) for name, place in self.places.items() if name != LOCAL_PLACE]
        return {**plan, "classes": classes} if classes else plan

    def _class(self, name: str, place: Machine) -> dict[str, Any]:
        gpu: dict[str, Any] = {"device": None, "compute_capability": None, "driver": None}
        if device := place.device:
            capability = list(device.compute_capability)
            gpu = {"device": device.name, "compute_capability": capability, "driver": device.driver}
        return {"name": name, **gpu, "reason": place.problem}

    def of(self, operator: str) -> dict[str, Any]:
        """For results/plan/<operator>.json, as plain data: what concerns one operator."""
        foreseen = {(name, workload) for name, _, workload in self.foreseen}
        return {
            "operator": operator,
            "axis": self.axes[operator],
            "stages": self._stage_rows(),
            "decisions": [asdict(decision) for decision in self.decisions if decision.operator == operator],
            "sources": {kernel: source for (name, kernel), source in self.sources.items() if name == operator},
            "workloads": _as_data(self.workloads[operator]),
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
            "stand_ins": {key: other for key, other in self.stand_ins.items() if key.startswith(f"{operator}/")},
            "cases": _named(self.cases, operator),
            "simulated_cases": _named(self.simulated, operator),
            "unsupported": [entry for entry in self.unsupported if entry["operator"] == operator],
            "predicted": {
                "devices": self.clocks,
                "workloads": [w.id for w in self.workloads[operator] if (operator, w.id) in foreseen],
            },
            "profiled": [w.id for w in self.workloads[operator] if w.id in self.profiled],
        }

    def _stage_rows(self) -> list[dict[str, Any]]:
        return [{"stage": stage, **asdict(reply)} for stage, reply in self.stages.items()]


def _by_build(cases: Iterable[PlannedCase]) -> dict[str, list[PlannedCase]]:
    result: dict[str, list[PlannedCase]] = {}
    for case in cases:
        result.setdefault(case.build.key, []).append(case)
    return result


def _as_data(workloads: list[Workload]) -> dict[str, dict[str, Any]]:
    """Return workloads by id like `asdict`, but faster: values are numbers and texts."""
    names = [field.name for field in fields(type(workloads[0]))] if workloads else []
    return {w.id: {name: getattr(w, name) for name in names} for w in workloads}


def _named(cases: dict[str, PlannedCase], operator: str) -> list[dict[str, str]]:
    mine = (case for case in cases.values() if case.build.operator == operator)
    return [{"build": case.build.key, "workload": case.workload.id} for case in mine]


def modules_needed(experiment: Experiment) -> dict[str, str]:
    """Return Python packages of the experiment's kernels: import name -> distribution."""
    matches: dict[str, str] = {}
    for operator, sweep in experiment.sweeps.items():
        for kernel in sweep.kernels:
            try:
                matches |= load_kernel(operator, kernel).NEEDS
            except ContractError:  # the plan has a row for it
                continue
    return matches


def make_plan(
    experiment: Experiment,
    machine: Machine,
    places: Mapping[str, Machine] | None = None,
    carried: Collection[str] = (),
    only: Collection[str] | None = None,
) -> Plan:
    """Cross operators, kernels, targets, workloads and variants; ask each kernel what it supports.

    `machine` builds, and runs cases too unless `places` names classes of nodes that do. `carried` are builds that were
    made elsewhere, as `operator/kernel/target`: they need no compiler here. `only` names the operators to plan.

    Raises ConfigError where no target is left, because `here` is the only one and there is no GPU.
    """
    places = {LOCAL_PLACE: machine} if places is None else dict(places)
    gpus = [place.device.compute_capability for place in places.values() if place.device]
    capabilities: list[tuple[int, int] | None] = [*gpus] or [None]
    targets = [name for one in capabilities for name in resolve_local_target(experiment.targets, one)]
    experiment = replace(experiment, targets=list(dict.fromkeys(targets)))
    if not experiment.targets:
        gpu = "on a GPU of compute capability {}.{}".format(*gpus[0]) if gpus else "without a GPU"
        raise ConfigError(f"config: targets: `here` stands for no target {gpu}; allowed: {', '.join(TARGETS)}")
    stages = stage_abilities(places.values(), experiment.stages)
    plan = Plan(machine, stages=stages, operators=list(experiment.sweeps), clocks=experiment.clocks, places=places)
    for operator, sweep in experiment.sweeps.items():
        if only is not None and operator not in only:
            continue
        plan.workloads[operator] = sweep.workloads()
        plan.axes[operator] = {"field": load_operator(operator).AXIS, "label": load_operator(operator).AXIS_LABEL}
        plan.dtypes[operator] = {target: sweep.dtypes_for(target) for target in experiment.targets}
        plan.foreseen |= {(operator, kernel, name) for kernel in sweep.kernels for name in sweep.predicted(kernel)}
        plan.foreseen_always |= {(operator, name) for name in sweep.predicted_always()}
        plan.profiled.update(sweep.profiled())
        for kernel in sweep.kernels:
            _add_kernel(plan, experiment, sweep, kernel, carried)
    return plan


def _add_kernel(plan: Plan, experiment: Experiment, sweep: Sweep, kernel: str, carried: Collection[str]) -> None:
    """Add everything of one kernel; a broken kernel gets only rows with a reason."""
    part = replace(
        plan, builds={}, cases={}, stand_ins={}, simulated={}, unsupported=[], sources={}, broken={}, running={}
    )
    operator, before = sweep.operator, len(plan.decisions)
    try:
        module = load_kernel(operator, kernel)
        part.sources[operator, kernel] = module.SOURCE
        _plan_kernel(part, experiment, sweep, kernel, module, carried)
    except ContractError as error:
        path = kernel_file(operator, kernel)
        place = label(path) if path else kernel
        reason = str(error) if "kernels/" in str(error) or path is None else f"{place}: {error}"
    except Exception as error:  # whatever its own functions raise is the kernel's fault, and only its own
        reason = blame(operator, kernel, error)
    else:
        for name in ("builds", "cases", "stand_ins", "simulated", "sources", "running"):
            getattr(plan, name).update(getattr(part, name))
        plan.unsupported += part.unsupported
        return
    del plan.decisions[before:]
    plan.broken[operator, kernel] = reason
    plan.sources[operator, kernel] = "ours"
    no = Ability(False, reason)
    plan.decisions += [Decision(operator, kernel, UNKNOWN, "ours", target, no, no, no) for target in experiment.targets]


def _plan_kernel(
    plan: Plan, experiment: Experiment, sweep: Sweep, kernel: str, module: Kernel, carried: Collection[str]
) -> None:
    operator = sweep.operator
    dtypes = {dtype for target in module.TARGETS for dtype in plan.dtypes[operator].get(target, [])}
    supported = []
    for name, workload in sweep.by_id.items():
        if workload.dtype not in dtypes:
            continue
        reason = kernel_queries.supports(module, workload)
        if reason is None:
            supported.append((name, workload))
        else:
            plan.unsupported.append({"operator": operator, "kernel": kernel, "workload": name, "reason": reason})
    written = [target for target in experiment.targets if target in module.TARGETS]
    for target in written if module.SOURCE == INSTALLED and written else experiment.targets:
        built = f"{operator}/{kernel}/{target}" in carried
        decision = decide(plan.machine, operator, kernel, module, target, built, plan.places.values())
        if decision.build.ok and not plan.dtypes[operator][target]:
            no = Ability(False, _no_dtype(plan, operator, target))
            decision = replace(decision, build=no, run=no, simulate=no)
        if decision.simulate.ok and target in experiment.not_simulated.get(module.DSL, ()):
            decision = replace(decision, simulate=Ability(False, _left_out(experiment, module.DSL)))
        if decision.run.ok:
            ok = [name for name, place in plan.places.items() if can_run(place, module, target).ok]
            plan.running[f"{operator}/{kernel}/{target}"] = ok
        plan.decisions.append(decision)
        # A kernel that a package brings along has cases without it too: recorded sets may have measured them.
        if not decision.build.ok and not (target in module.TARGETS and module.NEEDS):
            continue
        asked = frozenset(plan.dtypes[operator][target])
        builds: dict[str, tuple[str, Build]] = {}  # of a million workloads many share one
        for name, workload in supported:
            if workload.dtype not in asked:
                continue
            candidates = kernel_queries.variants(module, workload, target)
            for variant in candidates if sweep.variants == "all" else candidates[:1]:
                if variant.id not in builds:
                    build = Build(operator, kernel, target, variant)
                    builds[variant.id] = build.key, _planned(plan, build, workload) if decision.build.ok else build
                key, build = builds[variant.id]
                if build.variant is not variant:
                    kernel_queries.same(build.variant, variant, workload)
                plan.cases[f"{key}/{name}"] = PlannedCase(build, workload)
        if decision.simulate.ok and not decision.run.ok and "correctness" in experiment.stages:
            for workload in sweep.simulated(experiment.extent):
                _add_simulated(plan, operator, kernel, module, target, workload)
        if not decision.run.ok and not experiment.every_size:
            _leave_out_sizes(plan, sweep, module, target)


def _leave_out_sizes(plan: Plan, sweep: Sweep, module: Kernel, target: str) -> None:
    """Keep one or more builds of each group that differs in compile-time sizes.

    Builds that are simulated or predicted are kept; at least one of each group stands for the others. The anatomy runs
    small problems; what is profiled is known best.
    """
    kinds: dict[str, list[str]] = {}
    for build in plan.builds.values():
        kind = kernel_queries.group_key(module, build.variant) if build.target == target else None
        if kind is not None:
            kinds.setdefault(kind, []).append(build.key)
    if not kinds:
        return
    used = {case.build.key for case in (*plan.simulated.values(), *plan.predicted())}
    small = {workload.id for workloads in sweep.small() for workload in workloads}
    named = [
        {case.build.key for case in plan.cases.values() if case.workload.id in ids} for ids in (small, plan.profiled)
    ]
    for keys in kinds.values():
        chosen = min(keys, key=lambda key: [key not in preferred for preferred in named])
        kept = [key for key in keys if key in used] or [chosen]
        for key in keys:
            if key not in kept:
                del plan.builds[key]
                plan.stand_ins[key] = kept[0]


def _left_out(experiment: Experiment, dsl: str) -> str:
    switch = f"simulation={{{experiment.extent}: {{without: {{{dsl}: []}}}}}}"
    return f"the configuration leaves it out of the simulated checks, for what they cost; they are made with: {switch}"


def _no_dtype(plan: Plan, operator: str, target: str) -> str:
    others = [name for name, dtypes in plan.dtypes[operator].items() if dtypes]
    return (
        f"no dtype is asked for on {target}: `dtypes` of the sweep of {operator} has none for it"
        f"{' (it has some for ' + join(others) + ')' if others else ''}; add `{target}: […]` there"
    )


def _planned(plan: Plan, build: Build, workload: Workload) -> Build:
    """Return the build as planned before, or plan it now."""
    known = plan.builds.setdefault(build.key, build)
    kernel_queries.same(known.variant, build.variant, workload)
    return known


def _add_simulated(plan: Plan, operator: str, kernel: str, module: Kernel, target: str, workload: Workload) -> None:
    """Add a simulated case, with a build of the sweep that fits the workload."""
    if workload.dtype not in plan.dtypes[operator][target] or kernel_queries.supports(module, workload) is not None:
        return
    candidates = [
        Build(operator, kernel, target, variant) for variant in kernel_queries.variants(module, workload, target)
    ]
    build = _planned(plan, next((b for b in candidates if b.key in plan.builds), candidates[0]), workload)
    case = PlannedCase(build, workload)
    plan.simulated[case.key] = case
