"""A bulk store reads shared memory that ordinary stores wrote, with no proxy fence.

`bar.sync` orders the threads, and not the generic proxy before the async proxy. The final state of an empty sequence
came out stale.
"""

import numpy as np

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/MoonshotAI/FlashKDA/issues/24",
        "https://github.com/MoonshotAI/FlashKDA/pull/25",
    ),
    file="fwd_kernel2.cuh",
    area="fence",
    args=lambda: [np.zeros(128, np.uint32)],
    expected=lambda: [np.arange(128, dtype=np.uint32)],
    threads=128,
    ptx="""
    mad.lo.u32 %r1, %thread, 4, %smem;
    st.shared.u32 [%r1], %thread;
+   fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%g0], [%smem], 512;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
""",
)
