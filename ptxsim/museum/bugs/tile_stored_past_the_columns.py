"""The last tile of an output is stored whole although the matrix ends inside it.

A padding CTA of the cluster even stores a tile with no column. The fix stores the bytes that remain, or nothing.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/flashinfer-ai/flashinfer/pull/4186",),
    file="fused finalize of the CuTe DSL MoE",
    area="bounds",
    args=lambda: [np.zeros(80, np.uint32)],
    grid=3,
    ptx="""
    mov.u32 %r1, %ctaid.x;
    mul.lo.u32 %r2, %r1, 128;               // first byte of this CTA's tile of 128 bytes
    mad.lo.u32 %r3, %thread, 4, %smem;
    st.shared.u32 [%r3], %thread;
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra END;
    cvt.u64.u32 %d1, %r2;
    add.u64 %d1, %d1, %g0;
    mov.u32 %r4, 128;
+   sub.u32 %r5, 320, %r2;
+   min.u32 %r4, %r4, %r5;
    cp.async.bulk.global.shared::cta.bulk_group [%d1], [%smem], %r4;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
""",
)
