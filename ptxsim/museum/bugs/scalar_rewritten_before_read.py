"""The leader rewrites a shared scalar while slow warps still read its old value.

A loop needs two barriers: one after the write, and one after the reads. A top-k kernel lacked the second in
seven places.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/NVIDIA/TensorRT-LLM/issues/18338",
        "https://github.com/NVIDIA/TensorRT-LLM/pull/18339",
    ),
    file="gvr_topk_decode.py",
    area="ordering",
    args=lambda: [np.zeros(128, np.uint32)],
    expected=lambda: [np.full(128, 6, np.uint32)],
    threads=128,
    ptx="""
    setp.ne.u32 %p1, %thread, 0;
    mov.u32 %r1, 0;                         // the turn
    mov.u32 %r2, 0;                         // the sum of what was read
LOOP:
    @%p1 bra WRITTEN;
    st.shared.u32 [%smem], %r1;
WRITTEN:
    bar.sync 0;
    ld.shared.u32 %r3, [%smem];
+   bar.sync 0;
    add.u32 %r2, %r2, %r3;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, 4;
    @%p2 bra LOOP;
    mad.wide.u32 %d1, %thread, 4, %g0;
    st.global.u32 [%d1], %r2;
""",
)
