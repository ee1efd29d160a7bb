"""Records of machines: the planning machine (`arch`) and nodes of a class (`machine`)."""

from typing import Annotated, Any, Literal

import msgspec

from cutesnake.model.records.common import Dated, Part, Record, StageAbility, doc


class Gpu(Part):
    """A GPU of a machine, or a MIG slice of one."""

    index: int
    name: str
    compute_capability: tuple[int, int]
    driver: str
    memory_bytes: int
    multiprocessors: int | None
    uuid_hash: str
    slice_of: Annotated[str | None, doc("of a MIG slice the name of its GPU")] = None
    multiprocessor_share: float | None = 1.0
    memory_share: float = 1.0


class NodeClass(Part):
    """A class of nodes that run cases."""

    name: str
    device: str | None
    compute_capability: list[int] | None
    driver: str | None
    reason: str | None


class Arch(Record, tag="arch"):
    """results/arch.json: the machine that a run was planned for, and what it can do."""

    status: Literal["ok"]
    reason: str | None
    provenance: Dated
    mocked: Annotated[bool, doc("a mocked machine")] = msgspec.field(name="pretended")
    devices: list[Gpu]
    selected: Annotated[int | None, doc("index")]
    fingerprint: str
    limits: Annotated[dict[str, int | None], doc("of the driver, in bytes or counts")]
    readings: Annotated[dict[str, Any], doc("clocks (MHz), power (W), temperature (°C), throttle reasons")]
    tools: dict[str, bool]
    packages: dict[str, str | None]
    modules: Annotated[
        dict[str, str | None], doc("Python packages of kernels, by import name: version, null where not importable")
    ]
    stages: list[StageAbility]
    operators: Annotated[list[str], doc("in the order of the configuration")]
    classes: Annotated[
        list[NodeClass] | None, doc("classes of nodes that run cases, where the configuration names some")
    ] = None


class NodeMachine(Part):
    """What a job found on its node."""

    devices: list[Gpu]
    selected: int | None
    problem: str | None
    tools: dict[str, str | None]
    packages: dict[str, str | None]
    modules: dict[str, str | None]
    mocked: bool = msgspec.field(name="pretended")
    gpus: list[int] = msgspec.field(name="cards")


class Machine(Record, tag="machine"):
    """results/machine/<class>.json: what a job found on a node of a class."""

    status: Literal["ok"]
    reason: str | None
    provenance: Dated
    node_class: str = msgspec.field(name="class")
    machine: NodeMachine
