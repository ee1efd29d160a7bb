"""The bytes of one head are computed in 32 bits and become negative.

The number of heads that fit the L2 is then huge, and so is the index of the batch. The fix computes in 64 bits.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/Dao-AILab/flash-attention/pull/2662",
        "https://github.com/Dao-AILab/flash-attention/commit/7052e212",
    ),
    file="tile_scheduler.py",
    area="bounds",
    args=lambda: [np.zeros(8, np.uint32), 4_194_304],
    threads=1,
    ptx="""
    cvt.u32.u64 %r1, %g1;                   // keys
-   mul.lo.s32 %r2, %r1, 512;               // bytes of one head
-   cvt.s64.s32 %d1, %r2;
+   mul.wide.u32 %d1, %r1, 512;
    mov.s64 %d2, 52428800;
    setp.lt.s64 %p1, %d2, %d1;
    mov.u32 %r3, 1;                         // heads per section
    @%p1 bra SECTION;
    div.s64 %d3, %d2, %d1;
    setp.lt.s64 %p2, %d1, 0;
    @!%p2 bra FLOOR;
    sub.s64 %d3, %d3, 1;                    // `//` rounds down
FLOOR:
    cvt.u32.u64 %r4, %d3;
    clz.b32 %r5, %r4;
    sub.u32 %r5, 31, %r5;
    shl.b32 %r3, 1, %r5;
SECTION:
    shr.u32 %r6, %r3, 2;                    // batch of the last head of the section
    mad.wide.u32 %d4, %r6, 4, %g0;
    ld.global.u32 %r7, [%d4];
""",
)
