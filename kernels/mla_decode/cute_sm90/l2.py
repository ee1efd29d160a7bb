"""L2 cache policies of `cute_sm90`: arguments of a call, not part of a build.

Measured on an H200 and an H100: docs/knowledge/optimizations/pages_dropped_first.md.
"""

from kernels.mla_decode.cute_sm90.layout import EVICT_FIRST, KEEP

EVICT_QUARTER_FIRST = 0x1230000000000000  # of a quarter of the lines: createpolicy.fractional of PTX
RESIDENT_BYTES = 60_000_000  # most of a cache that L2 holds, or nearly, together with Q
MIN_EVICT_BYTES = 15_000_000  # least of a cache whose pages L2 evicts first
MAX_EVICT_BYTES = 100_000_000  # and most, where several CTAs read a page at any times
MAX_EVICT_IN_STEP_BYTES = 400_000_000  # or at about the same time
PREFETCH_BYTES = 400_000_000  # clusters prefetch pages of larger caches


def page_policy(cache_bytes: int, readers: int, in_step: bool) -> int:
    """Return KEEP or EVICT_FIRST, the policy for the pages of a cache.

    A cache that L2 holds is best kept. Of a larger one L2 holds nothing from call to call if it evicts the oldest, and
    a part if it evicts the newest; and in a single call pages then replace each other, and not lines whose writing back
    costs as much as a load. But of `readers`, the CTAs or clusters that load a page one after the other, the later ones
    may find it evicted. They hardly do if they go `in_step`, from one work tile each, until the cache is much larger.
    """
    if cache_bytes < MIN_EVICT_BYTES:
        return KEEP
    most = MAX_EVICT_IN_STEP_BYTES if in_step else MAX_EVICT_BYTES
    return EVICT_FIRST if readers == 1 or cache_bytes <= most else KEEP


def q_policy(cache_bytes: int, in_step: bool) -> int:
    """Return the policy for Q, in builds that have one: KEEP, EVICT_QUARTER_FIRST or EVICT_FIRST.

    Of workers with several work tiles Q replaces what is read next. Where each has one, Q may still be in L2 when the
    same call comes again, and in a single call it replaces lines whose writing back costs as much as a load: evicting
    all of Q first, a single call gains 4 % and warm ones lose 4 %; a quarter, 1 % and nothing.
    """
    if cache_bytes <= RESIDENT_BYTES:
        return KEEP
    return EVICT_QUARTER_FIRST if in_step else EVICT_FIRST
