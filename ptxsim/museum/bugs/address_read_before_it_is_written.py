"""A warp may read the address of tensor memory before the allocation has written it.

The warps met in barriers of the main loop only. A CTA without work skips the loop.
"""

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/NVIDIA/cutlass/pull/2835",
        "https://github.com/pytorch/FBGEMM/pull/5022",
    ),
    file="example 77; FBGEMM's Blackwell attention",
    area="ordering",
    args=lambda: [0],
    threads=64,
    ptx="""
    setp.ne.u32 %p1, %warp, 0;
    cvt.u32.u64 %r1, %g0;                   // tiles of this CTA: none
    @%p1 bra LOOP;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem], 32;
LOOP:
-   setp.eq.u32 %p2, %r1, 0;
-   @%p2 bra TAIL;
    bar.sync 0;
TAIL:
    @!%p1 bra END;
    ld.shared.u32 %r2, [%smem];
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
END:
""",
)
