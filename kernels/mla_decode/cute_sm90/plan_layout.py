"""The schedule of `cute_sm90` made on the card: the numbers that its parts share. Imports nothing heavy."""

from kernels.mla_decode.cute_sm90.layout import PAGE

WARPS = 16
THREADS = 32 * WARPS
SLOTS = 5  # workers of a lane in `deal`
MOST_WORKERS = 32 * SLOTS
MOST_REQUESTS, MOST_LENGTH = 1024, 131_072
MOST_UNITS = MOST_LENGTH // PAGE
MOST_PIECES = 1536  # of a plan: see Prices.most_pieces
SORTED = 2048  # the next power of two
FAR = 0x7FFFFFFF
UNIT_BITS, UNITS = 12, 0xFFF  # of a word that names a place: a request, and units of it
