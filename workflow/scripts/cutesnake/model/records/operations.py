"""Record of the stage `operations`: hardware operations that the kernels of a run use."""

from typing import Annotated, Literal

from cutesnake.model.records.common import Measured, Part, Record, doc


class OperationUse(Part):
    """A build that uses an operation."""

    operator: str
    kernel: str
    dsl: str
    target: str
    variant: str
    ptx: Annotated[str, doc("the first opcode of the operation")]
    ptx_count: Annotated[int, doc("occurrences of all its forms in the PTX")]
    sass: Annotated[str | None, doc("null: no machine instruction of its own is known")]
    sass_count: int | None
    source: Annotated[str | None, doc("file and line that the PTX names")]
    simulated: Annotated[
        int | None, doc("executions by warps in the counted launches, or products; null: not simulated")
    ]


class Operation(Part):
    """A hardware operation and the builds that use it."""

    group: str
    name: Annotated[str, doc("in CuTe DSL")]
    builds: list[OperationUse]


class Operations(Record, tag="operations"):
    """results/operations.json: hardware operations that the kernels of a run use."""

    status: Literal["ok"]
    reason: None
    provenance: Measured
    builds: Annotated[int, doc("whose code was read")]
    operations: list[Operation]
