"""A scheduler reads the row count of a group that does not exist.

`while count[i] ... and i < groups` reads `count[groups]`. Dynamic conditions of CuTe DSL do not short-circuit, so the
order of the operands is no cure; the read needs a branch of its own.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/flashinfer-ai/flashinfer/pull/4046",),
    file="grouped_gemm_masked_blackwell.py",
    area="bounds",
    args=lambda: [np.array([128, 0, 0, 0], np.uint32), np.zeros(1, np.uint32)],
    expected=lambda: [None, np.array([128], np.uint32)],
    threads=1,
    ptx="""
    mov.u32 %r1, 0;                         // group
    mov.u32 %r2, 0;                         // rows so far
LOOP:
+   setp.ge.u32 %p1, %r1, 4;
+   @%p1 bra DONE;
    mad.wide.u32 %d1, %r1, 4, %g0;
    ld.global.u32 %r3, [%d1];
-   setp.ge.u32 %p1, %r1, 4;
-   @%p1 bra DONE;
    add.u32 %r2, %r2, %r3;
    add.u32 %r1, %r1, 1;
    bra LOOP;
DONE:
    st.global.u32 [%g1], %r2;
""",
)
