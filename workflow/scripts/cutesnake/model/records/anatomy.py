"""Records of the stage `anatomy`: host setup and warp roles of one build."""

from typing import Annotated, Any, Literal

import msgspec

from cutesnake.model.records.common import BuildRecord, Part, Positive, Provenance, Record, doc

Task = Literal[
    "load", "multiply", "softmax", "correct", "accumulate", "convert", "compute", "epilogue", "store", "schedule"
]


class Watched(Part):
    """The simulated run that was observed."""

    parameters: dict[str, Any]
    processors: Annotated[int, doc("multiprocessors reported to the host")]
    schedule: str
    most_clusters: Annotated[Positive | None, doc("of each launch, where only the first ones were run")] = None


class Grids(Part):
    """Grids that the host function requests for one problem."""

    parameters: dict[str, Any]
    processors: int
    grids: Annotated[dict[str, list[int]], doc("by symbol")]


class Host(Part):
    """Launch configuration set by the host."""

    grid: list[int] | None
    block: list[int] | None
    cluster: list[int] | None
    dynamic_shared_bytes: int | None
    attributes: dict[str, Any] | None


class DescriptorUse(Part):
    """Copies with a TMA descriptor."""

    way: Literal["load", "store", "reduce"]
    role: str
    copies: int
    multicast_to: int
    lines: list[str]


class Descriptor(Part):
    """A TMA descriptor; sizes in elements, innermost dimension first."""

    tensor: str | None
    element: str
    sizes: list[int]
    strides_bytes: list[int]
    box: list[int]
    box_bytes: int
    swizzle: str
    fill: Annotated[str, doc("value of elements outside of the tensor")]
    uses: list[DescriptorUse]


class Buffer(Part):
    """A buffer in shared memory."""

    name: str
    offset: int
    bytes: int
    stages: Annotated[int | None, doc("of the pipeline whose copies go there")]
    stage_bytes: Annotated[int | None, doc("what a stage brings there; null where stages differ")]
    tensors: list[str]
    named_by_source: bool


class Shared(Part):
    """Map of shared memory."""

    limit_bytes: int
    dynamic_bytes: int | None
    buffers: list[Buffer] | None
    padding_bytes: int | None
    left_bytes: int | None


class TensorMemory(Part):
    """Use of tensor memory."""

    columns: int | None
    accumulators_at: list[int] | None
    note: str | None


class Registers(Part):
    """Registers at launch and after setmaxnreg."""

    per_thread: int | None
    setmaxnreg: list[int]
    directives: dict[str, Any]


class Role(Part):
    """Warps that do the same tasks."""

    name: str
    warps: list[int]
    tasks: list[Task]
    registers: Annotated[list[int], doc("values of setmaxnreg")]
    ranks: Annotated[list[int] | None, doc("CTAs of the cluster that load or multiply here; null: all")]
    instructions: int
    ran: Annotated[dict[str, str], doc("file -> source lines")]
    lines: dict[str, list[str]]
    some: Annotated[dict[str, list[int]], doc("tasks that only some of the warps do")]


class Arrival(Part):
    """Arrivals on an mbarrier."""

    kind: Literal["copy", "commit", "cp.async", "threads"]
    role: str
    per_phase: int | float
    lines: list[str]


class Waiter(Part):
    """Waits on an mbarrier."""

    role: str
    lines: list[str]


class Barrier(Part):
    """Adjacent mbarriers with the same use."""

    name: str
    offset: int
    stages: int
    count: int
    phases_seen: int
    never_used: int
    from_other_cta: bool
    arrivals: list[Arrival]
    waits: list[Waiter]


class Pipeline(Part):
    """A pair of full and empty barriers."""

    name: str
    stages: int
    fields: Annotated[list[str], doc("of shared memory that hold its barriers, where the source names them")]
    full_offsets: Annotated[list[int], doc("in shared memory; a stage can have several barriers")]
    empty_offsets: list[int]
    producers: list[str]
    consumers: list[str]


class NamedBarrier(Part):
    """A named barrier and who uses it."""

    number: int
    threads: list[int]
    roles: list[str]
    lines: list[str]


class Product(Part):
    """A form of matrix product; shape is M, N, K."""

    instruction: str
    shape: list[int]
    kind: str | None
    cta_group: int | None
    types: dict[str, str]
    a_in: str
    b_in: str
    d_in: str
    major: dict[str, str]
    scale_factors: Any
    descriptor_bits: str | None
    issued: int | None
    lines: list[str]
    roles: list[str]
    text: str = msgspec.field(name="words")


class Pattern(Part):
    """Whether a function follows a design pattern, and what shows it."""

    present: Annotated[bool | None, doc("null where unknown")] = msgspec.field(name="found")
    evidence: str
    lines: Annotated[list[str], doc("of the source, file:line")]


class AnatomyFunction(Part):
    """One device function."""

    symbol: str
    host: Host
    descriptors: list[Descriptor] | None
    shared: Shared
    tensor_memory: TensorMemory
    registers: Registers
    roles: list[Role] | None
    barriers: list[Barrier] | None
    pipelines: list[Pipeline] | None
    named_barriers: list[NamedBarrier] | None
    products: list[Product] | None
    counts: Annotated[dict[str, int], doc("instructions of the code by what they do")]
    patterns: Annotated[dict[str, Pattern], doc("by name")]
    contradictions: Annotated[list[str], doc("self-checks that failed")]

    @property
    def accumulators(self) -> list[tuple[int, int, int]]:
        """Return M, N and CTAs of each form of product in tensor memory, sorted."""
        return sorted({(p.shape[0], p.shape[1], p.cta_group) for p in self.products or [] if p.cta_group})


class Anatomy(BuildRecord, tag="anatomy"):
    """Host setup and warp roles of one build; null where unknown."""

    watched: Watched | None
    not_watched: Annotated[str | None, doc("why nothing was run")]
    grids: list[Grids]
    functions: Annotated[list[AnatomyFunction], doc("the main one first")]


class IndexedBuild(Part):
    """A build and the file of its anatomy."""

    kernel: str
    target: str
    variant: str
    file: str


class AnatomyIndex(Record, tag="anatomy"):
    """Index of the anatomy records of an operator."""

    operator: str
    builds: list[IndexedBuild]
    provenance: Provenance | None = None
