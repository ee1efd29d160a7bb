"""How the L2 shall treat what the kernel `cute_sm90` reads: arguments of a call, no part of a build.

Measured on an H200 and an H100: docs/knowledge/optimizations/pages_dropped_first.md.
"""

from __future__ import annotations

from kernels.mla_decode.cute_sm90.layout import EVICT_FIRST, KEEP

# Of a quarter of Q's lines that they are the first to go, of the others nothing: createpolicy.fractional of PTX.
QUARTER_FIRST = 0x1230000000000000
HELD_BYTES = 60_000_000  # of a cache that the L2 holds, or nearly, together with Q
LEAST_DROPPED_BYTES = 15_000_000  # of a cache whose pages the L2 shall drop first; and the most, where several CTAs
DROPPED_BYTES, DROPPED_IN_STEP_BYTES = 100_000_000, 400_000_000  # read a page, at any times or about at once
AHEAD_BYTES = 400_000_000  # of a cache from which on clusters ask for pages ahead


def page_policy(cache_bytes: int, readers: int, in_step: bool) -> int:
    """KEEP or EVICT_FIRST: how the L2 shall treat the pages of a cache of so many bytes.

    A cache that the L2 holds is best kept. Of a larger one the L2 holds nothing from call to call if it drops the
    oldest, and a part if it drops the newest; and in a lone call pages then take each other's place, and not that of
    lines whose writing back costs as much as a load. But of `readers`, the CTAs or clusters that load a page one after
    the other, the later ones may find it dropped. They hardly do if they go `in_step`, from one item each, until the
    cache is much larger.
    """
    if cache_bytes < LEAST_DROPPED_BYTES:
        return KEEP
    most = DROPPED_IN_STEP_BYTES if in_step else DROPPED_BYTES
    return EVICT_FIRST if readers == 1 or cache_bytes <= most else KEEP


def q_policy(cache_bytes: int, in_step: bool) -> int:
    """KEEP, QUARTER_FIRST or EVICT_FIRST: how the L2 shall treat Q, in builds that are told.

    Of workers with several items Q takes the place of what is read next. Where each has one, Q may still be there when
    the same call comes again, and in a lone call it takes the place of lines whose writing back costs as much as a
    load: with all of Q dropped first a lone call gains 4 % and repeated ones lose 4, with a quarter 1 % and nothing.
    """
    if cache_bytes <= HELD_BYTES:
        return KEEP
    return QUARTER_FIRST if in_step else EVICT_FIRST
