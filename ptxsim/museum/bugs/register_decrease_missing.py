"""An idle warp keeps its registers, and the epilogue waits for them for ever.

The decrease stood inside `if` of a feature that the build did not have.
"""

from ptxsim.museum.exhibit import Exhibit

EXHIBIT = Exhibit(
    note=__doc__,
    upstream=("https://github.com/Dao-AILab/quack/commit/97c98dc",),
    file="gemm_sm100.py",
    area="hang",
    threads=384,
    attributes=".reqntid 384, 1, 1 .minnctapersm 1",
    ptx="""
    setp.lt.u32 %p1, %warp, 4;              // warps 0 to 3: epilogue
    @%p1 bra EPILOGUE;
-   setp.eq.u32 %p2, %warp, 11;
-   @%p2 bra END;
    setmaxnreg.dec.sync.aligned.u32 120;
    bra END;
EPILOGUE:
    setmaxnreg.inc.sync.aligned.u32 256;
END:
""",
)
