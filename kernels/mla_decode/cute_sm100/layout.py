"""MLA decode for Blackwell in CuTe DSL: the numbers that the kernel's parts share. Imports nothing heavy."""

LATENT, ROPE, PAGE = 512, 64, 64
WIDTH = LATENT + ROPE
CTAS = 2  # of a cluster: a pair, whose tensor cores work on one product
ROWS = 128  # query rows of a pair: the M of a product
CTA_ROWS = ROWS // CTAS
KEYS = 2 * PAGE  # of a tile: for the scores each CTA of the pair has one page
HALF = LATENT // 2  # value columns of one product: its N, of which each CTA has a half in shared memory

BOX = 64  # columns of a TMA box: 128 bytes, the widest swizzle
BOXES = WIDTH // BOX  # of Q and of a page of keys
BOX_ELEMENTS = PAGE * BOX
BOX_BYTES = 2 * BOX_ELEMENTS

# The ring of shared memory that keys and values go through: stages of two boxes.
STAGES = 8
STAGE_BOXES = 2
KEY_STAGES = -(-BOXES // STAGE_BOXES)  # of a tile: the last holds the rope box alone
VALUE_STAGES = 4  # of a tile: two pages times two halves of the value columns

SOFTMAX_WARPS = 4
LOAD_WARP, PRODUCT_WARP = 4, 5
THREADS = 32 * 6

# Columns of tensor memory. In a product of 128 rows by a pair, lanes 0 to 63 of each CTA hold its 64 rows and the lower
# half of the N columns, lanes 64 to 127 the same rows and the upper half.
SCORE_COLUMNS = KEYS // 2
SCORE_STAGES = 2
OUT_COLUMN = SCORE_STAGES * SCORE_COLUMNS
OUT_COLUMNS = LATENT // 2
TENSOR_MEMORY_COLUMNS = 512  # a power of two that holds OUT_COLUMN + OUT_COLUMNS = 384

# mbarriers, of which each CTA has its own set; what the leader alone waits for is signalled there alone.
Q_FULL, Q_EMPTY = 0, 1
KV_FULL = 2
KV_EMPTY = KV_FULL + STAGES
SCORES_FULL = KV_EMPTY + STAGES
P_FULL = SCORES_FULL + SCORE_STAGES
OUT_FULL = P_FULL + 1
MBARRIERS = OUT_FULL + 1

SLACK = 8.0  # growth of the running maximum (base 2) up to which O is not rescaled
LN_2 = 0.6931471805599453
NEVER = -1.0e30  # running maximum before the first key; finite, so that a wholly masked row gives 2^-inf and no NaN

# Columns of a work item (int32), see schedule.py
REQUEST, ROW_BLOCK, BEGIN, END, PARTIAL, LENGTH, ITEM_COLUMNS = 0, 1, 2, 3, 4, 5, 8
