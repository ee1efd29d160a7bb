"""MLA decode for Hopper in CuTe DSL: the numbers that the kernel's parts share. Imports nothing heavy."""

LATENT, ROPE, PAGE = 512, 64, 64
WIDTH = LATENT + ROPE
ROWS = 64  # query rows of a CTA: the M of a warpgroup's matrix instruction
TILE = 64  # columns of a TMA tile: 128 bytes, the widest swizzle
TILES = WIDTH // TILE  # of Q and of a page
ROPE_TILE = TILES - 1  # of a page: no part of the value, so it holds P once the page's scores are done
HALF = LATENT // 2  # output columns of one consumer
TILE_ELEMENTS = PAGE * TILE
PAGE_ELEMENTS = PAGE * WIDTH
TILE_BYTES = 2 * TILE_ELEMENTS

CONSUMER_THREADS, THREADS = 256, 384
CONSUMER_REGISTERS, PRODUCER_REGISTERS = 232, 40

# mbarriers. A page slot is filled tile by tile, and emptied in two halves: consumer 0 is the last reader of one,
# consumer 1 of the other.
Q_FULL, Q_EMPTY, KV_FULL = 0, 1, 2
KV_EMPTY = KV_FULL + 2 * TILES
P0_READY = KV_EMPTY + 4  # of consumer 0, for consumer 1
P1_READY = P0_READY + 1
SUMS_READY = P1_READY + 1  # of both
Q_READ = SUMS_READY + 1  # of the other half's CTA: its Q's memory may be written
RECEIVED = Q_READ + 1  # from the other half's CTA: for consumer 0 two parts, for consumer 1 two
MBARRIERS = RECEIVED + 4
LEFT_TILES = (0, 1, 2, 3)  # value columns of consumer 0
RIGHT_TILES = (4, 5, 6, 7)  # value columns of consumer 1
# The rope tile goes with the half whose reader takes P from it: consumer 1 for page 0, consumer 0 for page 1.
SLOT_HALVES = (
    (LEFT_TILES, (*RIGHT_TILES, ROPE_TILE)),
    ((*LEFT_TILES, ROPE_TILE), RIGHT_TILES),
)

ALL_TILES = (*LEFT_TILES, *RIGHT_TILES, ROPE_TILE)

# With halves, what a consumer sends its like in the other half's CTA, into that CTA's memory of Q: for each thread 64
# values of O, behind two rows' maxima and before their sums, 16 bytes at a time, in two parts. The link between SMs
# carries some 16 bytes a cycle and is what this waits for: so of O's values the upper 24 bits travel.
SENT_CHUNKS = 64 * 3 // 16 + 2
PART_BYTES = SENT_CHUNKS // 2 * 128 * 16

# Pages of an item before the first that asks for one ahead; and of how many pages a warp's lanes hold the numbers, less
# what is asked for ahead of the last.
ASKED_FROM, WINDOW = 2, 30

# What keeps values past a request's end, which may be NaN, from its results: a page's rows end for TMA where the
# request does, and it fills the others of the box with zeros (`MlaDecodeSm90.rows_up_to`); or nothing does (only to
# see what that costs).
BOUNDED, TRUSTED = "bounded", "trusted"
LAST_ROW = WRAP = 1 << 30  # of the coordinates where CTAs share loads: both as large, so that one undoes the other

# How the L2 treats pages that were loaded: as anything else, or they are the first to go. Cache policies of the TMA
# unit; the second is CUTLASS's TMA::CacheHintSm90::EVICT_FIRST.
KEEP, EVICT_FIRST = 0, 0x12F0000000000000

SLACK = 8.0  # growth of the running maximum (base 2) up to which O is not rescaled
LN_2 = 0.6931471805599453
NEVER = -1.0e30  # running maximum before the first key; finite, so that a wholly masked row gives 2^-inf and no NaN

# Where a request is in two pieces, the two workers may merge them themselves, warp by warp: the first to come leaves
# what it has in global memory, in the order of its registers, and the second adds it to its own and stores the output.
# For each warp of a pair of halves: 64 values of O, behind two rows' maxima and sums, in chunks of 16 bytes a lane.
MEETING_WARPS = 2 * 8
LEFT_CHUNKS = 64 // 4 + 1
COUNTERS_SHAPE = MEETING_WARPS, 2  # who has come, and whether something is left there; 0 before and after a call
LEFT_SHAPE = MEETING_WARPS, LEFT_CHUNKS, 32, 4  # of a meeting: chunks of each lane
PIECES_MET = 2

# Columns of a work item (int32), see cute_sm90/schedule.py
REQUEST, ROW_BLOCK, BEGIN, END, PARTIAL, LENGTH, ITEM_COLUMNS = 0, 1, 2, 3, 4, 5, 8
LOADED_COLUMNS = REQUEST, ROW_BLOCK, BEGIN, END, LENGTH  # that the loading warp needs
