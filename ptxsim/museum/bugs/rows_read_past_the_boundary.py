"""Rows of the last tile are read past the end of the sequence.

The tile has 128 rows and the sequence 100. The mask for auxiliary tensors did not test the row.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/Dao-AILab/flash-attention/pull/2091",
        "https://github.com/Dao-AILab/flash-attention/commit/bba578d4",
    ),
    file="block_sparse_utils.py, mask.py",
    area="bounds",
    args=lambda: [np.arange(100, dtype=np.uint32), np.zeros(128, np.uint32)],
    threads=128,
    ptx="""
    mad.wide.u32 %d1, %thread, 4, %g0;
    mad.wide.u32 %d2, %thread, 4, %g1;
+   setp.ge.u32 %p1, %thread, 100;
+   @%p1 bra END;
    ld.global.u32 %r1, [%d1];
    st.global.u32 [%d2], %r1;
+END:
""",
)
