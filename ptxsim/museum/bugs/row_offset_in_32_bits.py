"""The offset of a row is computed in 32 bits and wraps.

Row 798,916 of 2,688 elements lies past 2^31. The fix computes the address in 64 bits.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

row = np.zeros(2_688, np.uint8)  # row 798,916; no other row is allocated

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/flashinfer-ai/flashinfer/pull/4263",),
    file="nvfp4_quantize.py",
    area="bounds",
    args=lambda: [row.ctypes.data - 798_916 * 2_688, row],
    threads=1,
    ptx="""
    mov.u32 %r1, 798916;
-   mul.lo.s32 %r2, %r1, 2688;
-   cvt.s64.s32 %d1, %r2;
+   mul.wide.u32 %d1, %r1, 2688;
    add.s64 %d2, %g0, %d1;
    ld.global.u8 %h1, [%d2];
""",
)
