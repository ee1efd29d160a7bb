"""Records of toolchains: an environment, a kernel compiled with one, and what changed between two."""

from typing import Annotated, Literal

from cutesnake.model.records.common import Count, Dated, Dsl, Part, Record, Status, doc
from cutesnake.model.records.inspect import Function


class Environment(Record, tag="environment"):
    """An installed toolchain."""

    status: Literal["ok"]
    reason: None
    provenance: Dated
    toolchain: str
    pins: Annotated[dict[str, str], doc("version by distribution")]
    megabytes: Annotated[float, doc("on disk, 10^6 bytes")]
    seconds: Annotated[float, doc("to install")]


class SpillSite(Part):
    """A source line with loads and stores of local memory."""

    source: Annotated[str, doc("file:line, or «unknown»")]
    loads: Count
    stores: Count


class ToolchainCheck(Part):
    """A simulated check of a build."""

    workload: str
    status: Status
    reason: str | None
    unknown_opcode: Annotated[str | None, doc("that ptxsim lacks; the result is then unknown")] = None


class ToolchainPrediction(Part):
    """A predicted time of a build."""

    workload: str
    device: str | None
    cold_us: float | None
    warm_us: float | None
    band_percent: Annotated[float | None, doc("expected error; null: never compared with a GPU")]
    reason: Annotated[str | None, doc("why there is no time")]


class ToolchainTime(Part):
    """A measured time of a build."""

    workload: str
    device: str | None
    cold_us: float | None
    warm_us: float | None
    reason: Annotated[str | None, doc("why there is no time")]


class ToolchainBuild(Part):
    """One build of a kernel with a toolchain."""

    variant: str
    status: Status
    reason: str | None
    seconds: float
    compilers: dict[str, str]
    functions: Annotated[list[Function], doc("static figures, the main kernel first")]
    spills: Annotated[list[SpillSite], doc("most accesses first")]
    checks: list[ToolchainCheck]
    predictions: list[ToolchainPrediction]
    times: Annotated[list[ToolchainTime], doc("where a GPU of the target is")]


class Toolchain(Record, tag="toolchain"):
    """Builds of one kernel and target with one toolchain."""

    status: Literal["ok"]
    reason: None
    provenance: Dated
    toolchain: str
    operator: str
    kernel: str
    dsl: Dsl
    target: str
    builds: list[ToolchainBuild]


Effect = Literal["worse", "better", "other"]


class ToolchainChange(Part):
    """A figure that differs between two neighbouring toolchains."""

    build: Annotated[str, doc("operator/kernel/target/variant")]
    before: Annotated[str, doc("toolchain")]
    now: Annotated[str, doc("toolchain")]
    figure: str
    old: float | str | None
    new: float | str | None
    effect: Effect
    over: Annotated[bool, doc("beyond a limit of the gate")]
    cause: Annotated[str | None, doc("source lines")]


class GateLimits(Part):
    """Growth that the gate allows from one toolchain to the next."""

    spill_bytes: Count
    stack_bytes: Count
    spill_sites: Count
    serialized_percent: Annotated[float, doc("points of a function's wgmma that wait one by one")]
    slower_percent: float


class Toolchains(Record, tag="toolchains"):
    """results/toolchains/matrix.json: neighbouring toolchains compared."""

    status: Literal["ok"]
    reason: None
    provenance: Dated
    toolchains: list[str]
    limits: GateLimits
    compared: Annotated[Count, doc("pairs of builds")]
    changes: Annotated[list[ToolchainChange], doc("beyond a limit first, then worse")]
