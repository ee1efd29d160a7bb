"""Record of the stage `inspect`: static figures of one build."""

from typing import Annotated

from msgspec import Meta

from cutesnake.model.records.common import BuildRecord, Count, Part, Positive, doc, need

Stages = Annotated[int, Meta(ge=2)]


class Instructions(Part):
    """Static instruction counts; each instruction is in one class, padding is left out."""

    tensor_core: Count
    tma_load: Annotated[Count, doc("to one block")]
    tma_store: Count
    tma_multicast: Annotated[Count, doc("loads to several blocks of the cluster")]
    tma_reduce: Count
    barrier: Annotated[Count, doc("barriers, mbarriers, fences, commits, and waits on them")]
    special_function: Count
    global_memory: Count
    shared_memory: Count
    tensor_memory: Annotated[Count, doc("loads, stores and copies")]
    local_memory: Count
    other: Count


class Limits(Part):
    """Blocks per SM that each resource allows; null where the kernel uses none of it."""

    shared_memory: Count | None
    registers: Count | None
    tensor_memory: Count | None
    named_barriers: Count | None
    warps: Count | None
    blocks: Count | None


class Occupancy(Part):
    """Theoretical occupancy of a device function."""

    blocks_per_sm: Count
    warps_per_sm: Count
    percent: Annotated[float, Meta(ge=0, le=100, description="of the warps that an SM holds")]
    limiter: Annotated[str, doc("resources that run out first, joined by «, »")]
    limits: Limits
    compute_capability: str
    devices: Annotated[list[str], doc("names in devices.yaml that it holds for")]
    assumed: list[str]


class Function(Part):
    """Static figures of one device function."""

    symbol: str
    code_bytes: Count
    registers_per_thread: Annotated[Count, doc("at launch")]
    spill_bytes: Annotated[Count | None, doc("of the stack, per thread, holding spilled registers")]
    stack_bytes: Annotated[Count, doc("per thread, in local memory")]
    static_shared_bytes: Annotated[Count, doc("per block, without the system's reserve")]
    dynamic_shared_bytes: Annotated[Count | None, doc("per block")]
    reserved_shared_bytes: Annotated[Count, doc("per block, added by the system")]
    threads_per_block: Count | None
    cluster_size: Annotated[Count | None, doc("blocks per cluster")]
    tensor_memory_columns: Annotated[Count | None, doc("per block, of the 512 of an SM")]
    setmaxnreg: Annotated[
        list[Positive] | None, doc("registers per thread after each reallocation, in order of address")
    ]
    named_barriers: Count
    mbarriers: Count
    instructions: Instructions | None
    pipeline_stages: Annotated[
        list[Stages] | None,
        doc("depth of every circular buffer of two or more stages, in order of its mbarriers' address"),
    ]
    occupancy: Occupancy | None
    serialized_wgmma: Annotated[
        Count | None, doc("wgmma instructions, each alone between two full waits; null: unknown")
    ] = None


class Inspect(BuildRecord, tag="inspect"):
    """Static figures of one build, read from its artifacts; nothing is run."""

    functions: Annotated[list[Function], doc("the main kernel first")]
    notes: Annotated[
        list[str],
        doc("«field: why it is null or what was assumed», with «function 2, » in front where there are several"),
    ]

    def __post_init__(self) -> None:
        if self.status == "failed":
            need(self.reason is not None, "reason", "it is empty; it must be a text where status is failed")
            need(not self.functions, "functions", "it must be empty where status is failed")
