"""All instruction families: importing this module fills the table in frontend/registry.py.

An emitter (`emits`) decodes an instruction into a frozen dataclass. It writes a line that calls a `runtime` function
with that dataclass, the fragment and the operands. Emitters and their runtime functions are in one file.
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
