"""Alignment of a field that NVIDIA's dynamic schedulers lack under CuTe DSL 4.8.

Their schedulers ask the hardware for the next tile (`clusterlaunchcontrol.try_cancel`); its answer of 16 bytes lands
in shared memory, in a field `clc_response` declared as four Int32. Since DSL 4.8 the answer is read in one access of
128 bits, which a field aligned by 8 bytes does not allow («'cute.copy' op S ptr alignment (64 bits) does not meet
requirement (128 bits)»). NVIDIA's later kernels, in nvidia-cutlass-operators 0.3.0, declare the field aligned by 16.
"""

from typing import Any

import cutlass.cute as cute

FIELD = "clc_response"
BYTES = 16


class _Struct(cute.struct):
    """`cute.struct` that aligns the field for the hardware's answer."""

    def __init__(self, cls: type) -> None:
        members: dict[str, Any] = dict(getattr(cls, "__annotations__", {}))
        if FIELD in members and not isinstance(members[FIELD], cute.struct._AlignMeta):
            members[FIELD] = cute.struct.Align[members[FIELD], BYTES]
            cls.__annotations__ = members
        super().__init__(cls)


def align_responses() -> None:
    """Align the response field in every struct that this process declares from now on.

    To be called in `program` of a build. Examples make the struct when they are imported or while they are compiled, so
    this cannot be undone between.
    """
    if not issubclass(cute.struct, _Struct):
        cute.struct = _Struct
