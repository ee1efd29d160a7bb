"""A fast warp arrives twice at a named barrier that its partner has not passed.

The producer only arrives and runs ahead by one tile. The surplus arrival completes the phase without the consumer, and
a later phase starves. The fix takes two barriers, one for even and one for odd tiles.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/flashinfer-ai/flashinfer/pull/4732",),
    file="sparse MLA prefill for sm_120",
    area="hang",
    args=lambda: [np.zeros(4, np.uint32)],
    threads=96,
    ptx="""
    setp.eq.u32 %p1, %warp, 2;
    mov.u32 %r1, 0;                         // tile
LOOP:
    and.b32 %r2, %r1, 1;
    add.u32 %r3, %r2, 3;                    // barriers 3 and 4: the tile before the last is consumed
-   mov.u32 %r4, 1;
+   add.u32 %r4, %r2, 1;
    @%p1 bra CONSUME;
    setp.lt.u32 %p2, %r1, 2;
    @%p2 bra PRODUCE;
    bar.sync %r3, 96;
PRODUCE:
    bar.arrive %r4, 96;
    bra NEXT;
CONSUME:
    bar.sync %r4, 96;
    mad.wide.u32 %d1, %r1, 4, %g0;
    st.global.u32 [%d1], %r1;
    setp.ge.u32 %p2, %r1, 2;
    @%p2 bra NEXT;
    bar.arrive %r3, 96;
NEXT:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, 4;
    @%p2 bra LOOP;
""",
)
