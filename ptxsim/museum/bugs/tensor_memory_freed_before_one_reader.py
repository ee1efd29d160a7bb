"""The warp that frees tensor memory waits for only one of its two readers.

An mbarrier counts the readers that are done. The second reader does not arrive, and the count does not include it.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/flashinfer-ai/flashinfer/blob/v0.7.2.post1/flashinfer/gdn_kernels/blackwell/"
        "gated_delta_net_chunked.py",
    ),
    file="gated_delta_net_chunked.py",
    area="ordering",
    args=lambda: [np.zeros(64, np.uint32)],
    expected=lambda: [np.arange(64, dtype=np.uint32)],
    threads=96,
    ptx="""
    setp.ne.u32 %p1, %warp, 2;
    setp.ne.u32 %p2, %lane, 0;
    @%p1 bra READY;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem], 32;
    @%p2 bra READY;
-   mbarrier.init.shared.b64 [%smem+8], 1;
+   mbarrier.init.shared.b64 [%smem+8], 2;
READY:
    bar.sync 0;
    ld.shared.u32 %r1, [%smem];
    @!%p1 bra FREE;
    shl.b32 %r2, %warp, 21;
    add.u32 %r2, %r2, %r1;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%thread};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2];
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %d1, %thread, 4, %g0;
    st.global.u32 [%d1], %r3;
    @%p2 bra END;
-   setp.ne.u32 %p3, %warp, 0;
-   @%p3 bra END;
    mbarrier.arrive.shared.b64 _, [%smem+8];
    bra END;
FREE:
    add.u32 %r4, %smem, 8;
    WAIT %r4, 0;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
END:
""",
)
