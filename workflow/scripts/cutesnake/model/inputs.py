"""Types of the files that people write: configuration, sweeps, devices, node classes, pins, knowledge, goals."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta
from msgspec import UnsetType as Absent

from cutesnake.model.explain import Problem, not_finite, problem
from cutesnake.model.records.common import Count, Digest, Part, Positive, doc, need

Target = Literal["sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_110a", "sm_120a", "sm_121a"]
Asked = Literal["sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_110a", "sm_120a", "sm_121a", "here"]
Stage = Literal["inspect", "anatomy", "operations", "correctness", "timing", "nsys", "ncu", "predict"]
Text = Annotated[str, Meta(min_length=1)]
Texts = Annotated[list[str], Meta(min_length=1)]
Limit = Annotated[float, Meta(gt=0)]
Capability = Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+$")]


class InputError(ValueError):
    """A file that does not fit its type. One line."""


def once(values: list[Any] | Absent, key: str) -> None:
    """Raise ValueError where a list has an entry twice."""
    need(not values or len(set(values)) == len(values), key, "it must be a list that has every entry once")


class Without(Part):
    """Targets that a list of simulated checks leaves out, by DSL."""

    cute: list[Literal["sm_90a", "sm_100a"]] | Absent = UNSET
    cutile: list[Literal["sm_90a", "sm_100a"]] | Absent = UNSET

    def __post_init__(self) -> None:
        once(self.cute, "cute")
        once(self.cutile, "cutile")


Schedule = Literal["random", "eager", "late", "tma_late", "mma_late", "warps", "search"]
Seed = Annotated[int, Meta(ge=0, le=4294967295)]
Seeds = Annotated[list[Seed], Meta(min_length=1)]


class SimulatedChecks(Part):
    """How a list of workloads is simulated."""

    schedules: Annotated[list[Schedule], Meta(min_length=1)]
    seeds: Seeds
    search_runs: Positive | Absent = UNSET
    processors: Positive | Absent = UNSET
    without: Without | Absent = UNSET

    def __post_init__(self) -> None:
        once(self.schedules, "schedules")
        once(self.seeds, "seeds")


class Simulation(Part):
    """Which list of workloads is simulated, and how."""

    extent: Literal["none", "short", "full"]
    short: SimulatedChecks
    full: SimulatedChecks


class CorrectnessSettings(Part):
    """Settings of correctness checks."""

    seeds: Seeds

    def __post_init__(self) -> None:
        once(self.seeds, "seeds")


class Prediction(Part):
    """GPUs to predict for."""

    devices: list[str]

    def __post_init__(self) -> None:
        once(self.devices, "devices")


class CompileSettings(Part):
    """Settings of compilation."""

    max_seconds: Limit
    compile_time_sizes: Literal["few", "all"] | Absent = msgspec.field(default=UNSET, name="baked_sizes")
    recorded: Literal["use", "ignore", "only"] | Absent = UNSET


class TimingSettings(Part):
    """Settings of timing."""

    max_seconds: Limit
    max_noise_percent: Limit


class Keep(Part):
    """Settings of the target `keep`."""

    replace_passing: bool | Absent = UNSET


class Gate(Part):
    """Builds that toolchains are compared with, and limits of the target `gate`."""

    builds: Literal["default", "all"] | Absent = UNSET
    spill_bytes: Count | Absent = UNSET
    stack_bytes: Count | Absent = UNSET
    spill_sites: Count | Absent = UNSET
    serialized_percent: Annotated[float, Meta(ge=0)] | Absent = UNSET
    slower_percent: Annotated[float, Meta(ge=0)] | Absent = UNSET


class Config(Part):
    """config/config.yaml."""

    targets: Annotated[list[Asked], Meta(min_length=1)]
    stages: list[Stage]
    operators: Texts
    correctness: CorrectnessSettings
    timing: TimingSettings
    sweeps: dict[str, dict[str, Any]] | Absent = UNSET
    kernel_paths: list[str] | Absent = UNSET
    machines: Text | None = None
    cases_per_job: Positive | Literal["auto"] | Absent = UNSET
    timing_alone: bool | Absent = UNSET
    keep: Keep | Absent = UNSET
    baseline: Text | None = None
    baseline_fails: Literal["none", "slower", "worse"] | Absent = UNSET
    simulation: Simulation | Absent = UNSET
    prediction: Prediction | Absent = UNSET
    compile: CompileSettings | Absent = UNSET
    toolchains: list[Text] | Absent = UNSET
    gate: Gate | Absent = UNSET

    def __post_init__(self) -> None:
        for key in ("targets", "stages", "operators", "kernel_paths", "toolchains"):
            once(getattr(self, key), key)


Scalar = int | str | bool
Scalars = Annotated[list[Scalar], Meta(min_length=1)]
Field = int | str | bool | Scalars
Fields = Annotated[dict[str, Field], Meta(min_length=1)]
Workloads = Annotated[list[Fields], Meta(min_length=1)]


class SimulatedList(Part):
    """Workloads that are small enough to be simulated."""

    distributions: Texts
    workloads: Workloads

    def __post_init__(self) -> None:
        once(self.distributions, "distributions")


class SimulatedLists(Part):
    """Lists of simulated workloads."""

    short: SimulatedList | Absent = UNSET
    full: SimulatedList | Absent = UNSET


class SweepFile(Part):
    """kernels/<operator>/sweep.yaml, and what is under `sweeps` of the configuration."""

    kernels: Texts | Absent = UNSET
    dtypes: Texts | Annotated[dict[Target, Texts], Meta(min_length=1)] | Absent = UNSET
    variants: Literal["default", "all"] | Absent = UNSET
    distributions: Texts | Absent = UNSET
    workloads: Workloads | Absent = UNSET
    simulation: SimulatedLists | Absent = UNSET
    predict: list[str] | dict[str, list[str]] | Absent = UNSET
    predict_always: list[str] | Absent = UNSET
    profile: list[str] | Absent = UNSET

    def __post_init__(self) -> None:
        for key in ("kernels", "distributions", "predict_always", "profile"):
            once(getattr(self, key), key)
        for dtypes in self.dtypes.values() if isinstance(self.dtypes, dict) else [self.dtypes]:
            once(dtypes, "dtypes")
        for named in self.predict.values() if isinstance(self.predict, dict) else [self.predict]:
            once(named, "predict")


class Peaks(Part):
    """Dense peaks in TFLOP/s."""

    bf16: Limit | None
    fp16: Limit | None
    fp8: Limit | None
    fp4: Limit | None
    tf32: Limit | None
    fp32: Limit | None


class FigureSources(Part):
    """Sources of a device's figures."""

    sms: str
    l2_mb: str
    memory_gb_per_s: str
    peak_tflops: str


class ListedDevice(Part):
    """A GPU of devices.yaml."""

    match: Annotated[Texts, doc("regular expressions")]
    compute_capability: Capability
    sms: Positive | None
    l2_mb: Limit | None
    memory_gb_per_s: Limit
    peak_tflops: Peaks
    sources: FigureSources
    reference: Annotated[bool | Absent, doc("in every roofline; others only where present or recorded")] = UNSET


class CapabilityLimits(Part):
    """Limits of a compute capability."""

    threads: Positive
    warps: Positive
    blocks: Positive
    registers: Positive
    registers_per_block: Positive
    shared_bytes: Positive
    shared_bytes_per_block: Positive
    shared_bytes_reserved: Count
    tensor_memory_columns: Count
    named_barriers: Positive | None


class DevicesFile(Part):
    """devices.yaml: peaks and limits of GPUs, each with its source."""

    devices: Annotated[dict[str, ListedDevice], Meta(min_length=1)]
    compute_capabilities: dict[Capability, CapabilityLimits]
    compute_capability_sources: dict[str, str]
    sources: dict[str, Text]


class NodeClassEntry(Part):
    """A class of nodes of a cluster."""

    partition: str | Absent = UNSET
    device: str | Absent = UNSET
    gpu_model: str | Absent = UNSET
    constraint: str | Absent = UNSET
    alone: Literal["card", "node"] | Absent = UNSET


class MachinesFile(Part):
    """config/machines.yaml: classes of nodes."""

    classes: Annotated[dict[Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")], NodeClassEntry], Meta(min_length=1)]


class Pin(Part):
    """A pinned wheel, and the files unpacked from it."""

    version: Text
    wheel: Annotated[str, Meta(pattern=r"^[^/\\]+\.whl$")]
    sha256: Digest
    licence: Text
    homepage: Annotated[str, Meta(pattern="^https://")]
    files: Annotated[list[Text], Meta(min_length=1)]

    def __post_init__(self) -> None:
        once(self.files, "files")


Upstream = dict[Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]*$")], Pin]


class Who(Part):
    """A kernel, or a variant of one."""

    kernel: str
    variant: str | Absent = UNSET


class Condition(Part):
    """A test of a value."""

    path: str
    equals: Any = UNSET
    contains: Any = UNSET
    at_least: float | Absent = UNSET
    at_most: float | Absent = UNSET


class FigureRange(Part):
    """The values of a figure that a rule holds for."""

    path: str
    range: tuple[float, float]


class EntryRule(Part):
    """A rule that an entry states."""

    when: list[Condition]
    then: Annotated[list[Condition], Meta(min_length=1)]
    figure: FigureRange | Absent = UNSET


class Claim(Part):
    """A claim of an entry, and how it is checked."""

    kind: Literal["ratio", "value", "count", "columns", "row", "cited", "anatomy", "simulated", "compiled"]
    text: Annotated[str, doc("the claim in words")]
    set: Annotated[str | Absent, doc("of ratio and value: the recorded set")] = UNSET
    stage: str | Absent = UNSET
    operator: str | Absent = UNSET
    metric: Annotated[str | Absent, doc("of ratio: the key among the metrics")] = UNSET
    path: Annotated[str | Absent, doc("keys separated by /")] = UNSET
    per: Annotated[str | Absent, doc("of value: the divisor")] = UNSET
    of: Who | Absent = UNSET
    each: Annotated[
        str | Absent, doc("of count: the list whose parts are counted; without it, records are counted")
    ] = UNSET
    has: Annotated[dict[str, Any] | Absent, doc("of count: path -> value")] = UNSET
    slow: Any = UNSET
    fast: Any = UNSET
    where: Annotated[dict[str, Any] | Absent, doc("parameters of the workload; of simulated: all arguments")] = UNSET
    statistic: Literal["geomean", "least", "most", "count"] | Absent = UNSET
    file: str | Absent = UNSET
    rows: Annotated[str | Absent, doc("of columns and row: place of the file's rows, keys separated by /")] = UNSET
    row: Annotated[dict[str, Any] | Absent, doc("of columns and row: which row")] = UNSET
    first: Annotated[str | Absent, doc("of cited: first cell of a table row of `file`, whose last is quoted")] = UNSET
    says: Annotated[str | Absent, doc("of simulated: text of a finding")] = UNSET
    processors: Annotated[int | Absent, doc("of simulated: multiprocessors of the GPU")] = UNSET
    function: Annotated[str | Absent, doc("of compiled: the compiled function of the program `file`")] = UNSET
    target: Annotated[str | Absent, doc("of compiled")] = UNSET
    build: str | Absent = UNSET
    equals: Any = UNSET
    contains: Any = UNSET
    at_least: float | Absent = UNSET
    at_most: float | Absent = UNSET


class Knowledge(Part):
    """Claims of an entry of docs/knowledge, and the rule that it states."""

    evidence: Annotated[list[Claim], Meta(min_length=1)]
    rule: EntryRule | Absent = UNSET


KernelName = Annotated[str, Meta(pattern="^[a-z0-9_]+/[a-z0-9_]+$")]
Questions = Annotated[list[str], Meta(min_length=3)]


class Goal(Part):
    """A goal of learning, and the kernels that lead to it."""

    name: str
    kernels: Annotated[list[KernelName], Meta(min_length=1)]
    questions: Questions


class LearningStep(Part):
    """A kernel of a path."""

    kernel: KernelName
    why: str


class LearningPath(Part):
    """Kernels in reading order."""

    name: str
    steps: list[LearningStep]
    questions: Questions


class LearningPair(Part):
    """Two kernels of one operator, whose answers are compared."""

    kernels: Annotated[list[KernelName], Meta(min_length=2, max_length=2)]
    why: Text
    questions: Questions


class LearningExercise(Part):
    """A changed line of a kernel, and what comes of it."""

    path: str
    kernel: KernelName
    workload: dict[str, Any]
    file: str
    line: str
    to: str
    ask: Text
    outcome: Literal["right", "hangs", "races", "bounds", "wrong", "refused"]
    why: Text
    nth: Count | Absent = UNSET
    known: str | Absent = UNSET


class Learning(Part):
    """config/learning.yaml."""

    goals: list[Goal]
    paths: dict[str, LearningPath]
    pairs: list[LearningPair]
    exercises: dict[str, LearningExercise]


INPUTS: dict[str, Any] = {
    "config": Config,
    "devices": DevicesFile,
    "knowledge": Knowledge,
    "learning": Learning,
    "machines": MachinesFile,
    "sweep": SweepFile,
    "upstream": Upstream,
}


def find_problem(name: str, data: Any) -> Problem | None:
    """Find the first thing in `data` that does not fit the type of `name`."""
    if (wrong := not_finite(data)) is not None:
        return wrong
    try:
        msgspec.convert(data, INPUTS[name])
    except msgspec.ValidationError as error:
        return problem(error, data, INPUTS[name])
    return None


def check_input(name: str, data: Any, where: Path | str) -> None:
    """Raise InputError, naming file and key, unless `data` fits the type of `name`."""
    if (wrong := find_problem(name, data)) is not None:
        raise InputError(f"{where}: {wrong}")
