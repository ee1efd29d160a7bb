"""Tensor memory is freed while other warps still read it.

The warp that frees it has to wait for all readers. The fix is a barrier before the dealloc.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/Dao-AILab/flash-attention/commit/dd8a2729",),
    file="flash_fwd_sm100.py, flash_bwd_sm100.py",
    area="ordering",
    args=lambda: [np.zeros(128, np.uint32)],
    expected=lambda: [np.arange(128, dtype=np.uint32)],
    threads=128,
    ptx="""
    setp.ne.u32 %p1, %warp, 0;
    @%p1 bra ALLOCATED;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem], 32;
ALLOCATED:
    bar.sync 0;
    ld.shared.u32 %r1, [%smem];
    shl.b32 %r2, %warp, 21;                 // 32 lanes per warp
    add.u32 %r2, %r2, %r1;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%thread};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2];
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %d1, %thread, 4, %g0;
    st.global.u32 [%d1], %r3;
+   bar.sync 0;
    @%p1 bra END;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
END:
""",
)
