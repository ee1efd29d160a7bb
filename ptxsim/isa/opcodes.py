"""The instructions, a file per family: importing this module fills the table in frontend/registry.py.

An emitter (`emits`) decodes an instruction into a frozen dataclass with named fields and writes a line that calls a
function with it, the fragment and the operands; such functions (`runtime`) stand beside their emitter.
"""

from . import (  # noqa: F401  (they register their opcodes)
    arithmetic,
    atomic,
    barrier,
    bulk,
    cluster_launch,
    compare,
    control,
    convert,
    cp_async,
    floating,
    integer,
    mbarrier,
    memory,
    mma,
    register_checks,
    tcgen05,
    tensor_allocation,
    tensor_map,
    tensor_memory,
    tma,
    warp_wide,
    wgmma,
)
