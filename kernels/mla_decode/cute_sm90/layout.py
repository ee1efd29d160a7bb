"""Numbers that device code and host code of `cute_sm90` share. Imports nothing heavy."""

from enum import IntEnum

# Problem and CTA tile. Sizes in elements unless the name says bytes.
LATENT, ROPE, PAGE = 512, 64, 64
WIDTH = LATENT + ROPE
ROWS = 64  # query rows of a CTA: M of wgmma
TILE = 64  # columns of a TMA box: 128 bytes, the widest swizzle
TILES = WIDTH // TILE  # of Q and of a page
ROPE_TILE = TILES - 1  # no part of V: it holds P once the page's scores are done
HALF = LATENT // 2  # output columns of one consumer
TILE_ELEMENTS = PAGE * TILE
PAGE_ELEMENTS = PAGE * WIDTH
TILE_BYTES = 2 * TILE_ELEMENTS
STAGES = 2  # pages in shared memory: even pages of a work tile in stage 0, odd ones in stage 1

LEFT_TILES = (0, 1, 2, 3)  # V columns of consumer 0
RIGHT_TILES = (4, 5, 6, 7)  # V columns of consumer 1
ALL_TILES = (*LEFT_TILES, *RIGHT_TILES, ROPE_TILE)
# [stage][consumer]: tiles that the consumer is the last to read. The rope tile goes with the reader of its P: consumer
# 1 in stage 0, consumer 0 in stage 1.
STAGE_HALVES = ((LEFT_TILES, (*RIGHT_TILES, ROPE_TILE)), ((*LEFT_TILES, ROPE_TILE), RIGHT_TILES))

WARP_THREADS, WARPGROUP_THREADS, WARPGROUP_WARPS = 32, 128, 4
CONSUMER_THREADS, THREADS = 2 * WARPGROUP_THREADS, 3 * WARPGROUP_THREADS
CONSUMER_REGISTERS, PRODUCER_REGISTERS = 232, 40  # a thread: with both consumers 64,512 = THREADS x 168, as launched


class Warp(IntEnum):
    """First warp of each role."""

    CONSUMER0 = 0
    INIT = 0  # initializes the mbarriers
    CONSUMER1 = 4
    LOAD = 8  # first of the producer warpgroup
    LAUNCH = 9  # lets the next kernel start, in planned builds


class Bar(IntEnum):
    """Index of the first mbarrier of each kind, 8 bytes of shared memory each."""

    Q_FULL = 0
    Q_EMPTY = 1
    KV_FULL = 2  # [stage, tile]
    KV_EMPTY = KV_FULL + STAGES * TILES  # [stage, consumer]
    P_READY = KV_EMPTY + 2 * STAGES  # [stage]: of the stage's consumer, for the other one
    SUMS_READY = P_READY + STAGES  # of both consumers
    Q_READ = SUMS_READY + 1  # of the peer CTA with split KV: the memory of its Q may be written
    RECEIVED = Q_READ + 1  # [consumer, part]: from the peer CTA with split KV
    COUNT = RECEIVED + 4


# Exchange between the two CTAs of a cluster with split KV, into the peer's memory of Q: a thread sends 64 values of O,
# behind the maxima and before the sums of two rows, in chunks of 16 bytes. The link carries some 16 bytes a cycle and
# is the bottleneck, so only the upper 24 bits of O's values are sent.
COLUMNS = HALF // 4  # fp32 values of O a thread sends and keeps with split KV: half of its accumulator
EXCHANGE_CHUNKS = COLUMNS * 3 // 16 + 2
EXCHANGE_PART_BYTES = EXCHANGE_CHUNKS // 2 * WARPGROUP_THREADS * 16  # each of two parts has an mbarrier

# In-kernel merge of two splits of a request, warp by warp: the first to come leaves its registers in global memory, the
# second adds them to its own and stores the output.
MERGED_SPLITS = 2
MERGE_WARPS = 2 * 2 * WARPGROUP_WARPS  # of a cluster with split KV
MERGE_CHUNKS = COLUMNS // 4 + 1  # 16 bytes a lane: 64 values of O behind two rows' maxima and sums
MERGE_COUNTERS_SHAPE = MERGE_WARPS, 2  # arrivals, and whether state is stored; 0 before and after a call
MERGE_STATE_SHAPE = MERGE_WARPS, MERGE_CHUNKS, WARP_THREADS, 4

# L2 prefetch of pages, in clusters that share loads.
PREFETCH_FROM = 2  # pages of a work tile before the first that prefetches another
PAGE_WINDOW = 30  # page numbers that the lanes of a warp hold, less the two prefetched ahead of the last

# Bounds of the TMA coordinates where CTAs share loads (`MlaDecodeSm90.bounded_rows`): equal, so that they cancel.
LAST_ROW = WRAP = 1 << 30

# L2 cache policies of TMA loads: CUTLASS's TMA::CacheHintSm90. KEEP is no hint.
KEEP, EVICT_FIRST = 0, 0x12F0000000000000

RESCALE_SLACK = 8.0  # growth of the running maximum (base 2) up to which O is not rescaled: P is 2^8 at most
LN_2 = 0.6931471805599453
INITIAL_MAX = -1.0e30  # finite: a fully masked row gives 2^-inf = 0, not NaN

# Columns of a work tile (int32, 16-byte rows): see schedule.py.
REQUEST, ROW_BLOCK, BEGIN, END, PARTIAL, LENGTH, WORK_COLUMNS = 0, 1, 2, 3, 4, 5, 8
LOAD_COLUMNS = REQUEST, ROW_BLOCK, BEGIN, END, LENGTH  # that the load warp reads

# Planner on the GPU (planner.py).
PLAN_WARPS = 16
PLAN_THREADS = WARP_THREADS * PLAN_WARPS
WORKERS_PER_LANE = 5  # in `Planner.deal`
MAX_WORKERS = WARP_THREADS * WORKERS_PER_LANE
MAX_REQUESTS, MAX_LENGTH = 1024, 131_072
MAX_UNITS = MAX_LENGTH // PAGE
MAX_SPLITS = 1536  # of a plan: Prices.max_splits of the limits above
SORT_KEYS = 2048  # MAX_SPLITS rounded up to a power of two
INT32_MAX = 0x7FFFFFFF
UNIT_BITS, UNIT_MASK = 12, 0xFFF  # of a word with a request above and its units below
