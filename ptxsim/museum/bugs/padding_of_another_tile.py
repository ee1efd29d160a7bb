"""Sums are zeroed at offsets for tiles of 128, but added at offsets for 64.

The buffer keeps what it held before. compute-sanitizer is silent, since every address is inside the buffer.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/Dao-AILab/flash-attention/blob/main/AI/VARLEN_PREPROCESS_TILE_BUG.md",),
    file="flash_bwd_preprocess.py",
    area="numbers",
    args=lambda: [np.full(512, 0xFFFFFFFF, np.uint32)],
    expected=lambda: [
        np.r_[np.full(192, 0xFFFFFFFF, np.uint32), np.ones(64, np.uint32), np.full(256, 0xFFFFFFFF, np.uint32)]
    ],
    threads=64,
    missed="all addresses are valid; ptxsim does not track which global memory is initialised",
    ptx="""
-   mov.u32 %r1, 256;                       // the second sequence, padded to 128
+   mov.u32 %r1, 192;                       // padded to 64
    add.u32 %r2, %r1, %thread;
    mad.wide.u32 %d1, %r2, 4, %g0;
    st.global.u32 [%d1], 0;
    bar.sync 0;
    add.u32 %r3, %thread, 192;
    mad.wide.u32 %d2, %r3, 4, %g0;
    ld.global.u32 %r4, [%d2];
    add.u32 %r4, %r4, 1;
    st.global.u32 [%d2], %r4;
""",
)
