"""A CTA of a pair allocates tensor memory before it knows that its peer runs.

The PTX ISA asks the issuing warp to make sure that the peer CTA is launched. The fix is a cluster barrier before the
alloc.
"""

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=(
        "https://github.com/NVIDIA/cutlass/pull/3316",
        "https://github.com/triton-lang/triton/pull/10735",
    ),
    file="cute tutorials 04 and 05 for Blackwell; Triton's 2-CTA kernels",
    area="ordering",
    grid=2,
    cluster=2,
    ptx="""
+   barrier.cluster.arrive;
+   barrier.cluster.wait;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%smem], 32;
    ld.shared.u32 %r1, [%smem];
    barrier.cluster.arrive;
    barrier.cluster.wait;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, 32;
    barrier.cluster.arrive;
    barrier.cluster.wait;
""",
)
