"""A warp signals that its tensor-memory store is done without waiting for it.

`tcgen05.st` is asynchronous. An arrival publishes it only after `tcgen05.wait::st`.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/Dao-AILab/flash-attention/commit/e540fc1b",),
    file="flash_fwd_sm100.py",
    area="fence",
    args=lambda: [np.zeros(32, np.uint32)],
    expected=lambda: [np.arange(32, dtype=np.uint32)],
    threads=160,
    ptx="""
    setp.ne.u32 %p1, %warp, 0;
    setp.ne.u32 %p2, %warp, 4;              // warps 0 and 4 reach the same lanes
    setp.ne.u32 %p3, %lane, 0;
    @%p1 bra READY;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem], 32;
    @%p3 bra READY;
    mbarrier.init.shared.b64 [%smem+8], 32;
READY:
    bar.sync 0;
    ld.shared.u32 %r1, [%smem];
    @%p1 bra READ;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%thread};
+   tcgen05.wait::st.sync.aligned;
    mbarrier.arrive.shared.b64 _, [%smem+8];
READ:
    @%p2 bra FREE;
    add.u32 %r2, %smem, 8;
    WAIT %r2, 0;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1];
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %d1, %lane, 4, %g0;
    st.global.u32 [%d1], %r3;
FREE:
    bar.sync 0;
    @%p1 bra END;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
END:
""",
)
