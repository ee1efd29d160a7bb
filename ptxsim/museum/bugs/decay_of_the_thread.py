"""Threads take the decay at their own last column instead of the block's end.

A quarter of the threads are right by chance.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/flashinfer-ai/flashinfer/pull/4311",),
    file="gated_delta_net_chunked.py",
    area="numbers",
    args=lambda: [np.arange(64, dtype=np.uint32), np.zeros(32, np.uint32)],
    expected=lambda: [None, np.full(32, 63, np.uint32)],
    missed="the wrong index gives valid addresses: only the numbers differ",
    ptx="""
-   and.b32 %r1, %thread, 3;
-   mad.lo.u32 %r1, %r1, 2, 57;             // 57, 59, 61, 63
+   mov.u32 %r1, 63;
    mad.wide.u32 %d1, %r1, 4, %g0;
    ld.global.u32 %r2, [%d1];
    mad.wide.u32 %d2, %thread, 4, %g1;
    st.global.u32 [%d2], %r2;
""",
)
