"""A warp signals that tensor memory is free while its load is in flight.

`tcgen05.ld` is asynchronous. Lanes that never use the loaded registers wait for nothing.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/vllm-project/flash-attention/pull/182",
        "https://github.com/NVIDIA/cutlass/pull/3652",
    ),
    file="sm100_hd256_2cta_fmha_forward.py; tgv_gqa.cuh",
    area="ordering",
    args=lambda: [np.zeros(32, np.uint32)],
    threads=160,
    ptx="""
    setp.ne.u32 %p1, %warp, 0;              // warp 0 reads
    setp.ne.u32 %p2, %warp, 4;              // warp 4 owns the tensor memory and overwrites it
    setp.ne.u32 %p3, %lane, 0;
    @%p2 bra READY;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem], 32;
    ld.shared.u32 %r1, [%smem];
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%lane};
    tcgen05.wait::st.sync.aligned;
    @%p3 bra READY;
    mbarrier.init.shared.b64 [%smem+8], 32;
READY:
    bar.sync 0;
    ld.shared.u32 %r1, [%smem];
    @!%p2 bra OVERWRITE;
    @%p1 bra END;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];
+   tcgen05.wait::ld.sync.aligned;
    mbarrier.arrive.shared.b64 _, [%smem+8];
    mad.wide.u32 %d1, %lane, 4, %g0;
    st.global.u32 [%d1], %r2;
    bra END;
OVERWRITE:
    add.u32 %r3, %smem, 8;
    WAIT %r3, 0;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r1};
    tcgen05.wait::st.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
END:
""",
)
