"""A wait for the second phase returns at once, before the first is complete.

A wait for parity 1 means "the phase before phase 0" until phase 0 completes. A warp that arrives for both phases has to
wait for the first one in between. Otherwise it frees tensor memory that others still use.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/sgl-project/sglang/blob/v0.5.23/python/sglang/kernels/ops/gemm/cutedsl_bf16_gemm.py",
    ),
    file="cutedsl_bf16_gemm.py; FlashInfer's tgv_gemm_cute_ext.py",
    area="ordering",
    args=lambda: [np.zeros(64, np.uint32)],
    threads=96,
    ptx="""
    setp.ne.u32 %p1, %warp, 0;              // warp 0 allocates and frees, warps 1 and 2 are the epilogue
    setp.ne.u32 %p2, %thread, 0;
    @%p2 bra READY;
    mbarrier.init.shared.b64 [%smem+8], 96;
READY:
    bar.sync 0;
    add.u32 %r1, %smem, 8;
    @%p1 bra EPILOGUE;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem], 32;
    mbarrier.arrive.shared.b64 _, [%r1];    // phase 0: the address is there
    ld.shared.u32 %r2, [%smem];
+   WAIT %r1, 0;
    mbarrier.arrive.shared.b64 _, [%r1];    // phase 1: the epilogue has read
    WAIT %r1, 1;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
    bra END;
EPILOGUE:
    mbarrier.arrive.shared.b64 _, [%r1];
    WAIT %r1, 0;
    ld.shared.u32 %r2, [%smem];
    shl.b32 %r3, %warp, 21;
    add.u32 %r3, %r3, %r2;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%lane};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3];
    tcgen05.wait::ld.sync.aligned;
    mbarrier.arrive.shared.b64 _, [%r1];
    sub.u32 %r5, %thread, 32;
    mad.wide.u32 %d1, %r5, 4, %g0;
    st.global.u32 [%d1], %r4;
END:
""",
)
