"""MLA decode for Blackwell in CuTe DSL: the numbers that the kernel's parts share. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LATENT, ROPE, PAGE = 512, 64, 64
WIDTH = LATENT + ROPE
CTAS = 2  # of a pair, whose tensor cores work on one product
ROWS = 128  # query rows of a pair: the M of a product
CTA_ROWS = ROWS // CTAS
KEYS = 2 * PAGE  # of a tile: for the scores each CTA of the pair has one page
HALF = LATENT // 2  # value columns of a CTA, and of one product: its N, of which each CTA has a half in shared memory

BOX_BYTES = 64 * 128  # 64 rows of 128 bytes, the widest swizzle
STEP_BYTES = 32  # of a row, that one instruction multiplies
BOX_STEPS = 128 // STEP_BYTES
UNIT_COLUMNS = HALF // CTAS  # value columns of a CTA in one product
STORE_ROW_BYTES = 64  # a TMA store has 32 rows of this width at most, by one warp
STORE_BYTES = 32 * STORE_ROW_BYTES
CHUNK = 32  # columns of O that a thread rescales, or sends, at a time
SHARED_BYTES = 232_448  # that a CTA can have

# Columns of tensor memory. In a product of 128 rows by a pair, lanes 0 to 63 of each CTA hold its 64 rows and the lower
# half of the N columns, lanes 64 to 127 the same rows and the upper half.
SCORE_COLUMNS = KEYS // 2
SCORE_STAGES = 2
OUT_COLUMN = SCORE_STAGES * SCORE_COLUMNS
OUT_COLUMNS = LATENT // 2
TENSOR_MEMORY_COLUMNS = 512  # a power of two that holds OUT_COLUMN + OUT_COLUMNS = 384

WARP_LANES = 32
COMBINE_WARPS = 4  # of a CTA of the combine kernel: its registers fit beside those of a CTA of the other one
PIECE = 8  # columns of a partial result that a thread stores, loads or sends at once: 16 bytes
SHIFT = 16  # of the product with a reciprocal, see schedule.py
LN_2 = 0.6931471805599453
NEVER = -1.0e30  # running maximum before the first key; finite, so that a wholly masked row gives 2^-inf and no NaN

# Columns of a work item (int32), see schedule.py. A pair's row has its first item's, and which items are its own.
REQUEST, ROW_BLOCK, BEGIN, END, PARTIAL, LENGTH, FIRST_ITEM, END_ITEM, ITEM_COLUMNS = 0, 1, 2, 3, 4, 5, 6, 7, 8


@dataclass(frozen=True)
class Layout:
    """What depends on the size of an element and on the number of softmax warps.

    A slot has what a CTA needs of a tile, in parts of 64 rows, each loaded at once: first its page of keys, then its
    columns of the values of both pages. In place, the keys' parts are those of the values, too (in_place.py). The keys'
    rope is a box of its own, behind all slots, which comes and goes with the keys' first part.
    """

    element_bytes: int  # of Q, cache, P and output: 2 or 1
    groups: int  # of four softmax warps each: they share a tile's columns
    slots: int
    in_place: bool = False  # a tile's values take the place of its keys
    pairs: int = 1  # of a cluster: 1, 2 or 4, that have a request's keys between them, and merge (merge.py)

    @property
    def ctas(self) -> int:
        """Of a cluster."""
        return CTAS * self.pairs

    @property
    def box(self) -> int:
        """Columns of a box."""
        return 128 // self.element_bytes

    @property
    def boxes(self) -> int:
        """Of Q and of a page of keys, in each CTA. Of 8-bit elements the last is half empty, filled with zeros."""
        return -(-WIDTH // self.box)

    @property
    def key_steps(self) -> int:
        """Instructions for the scores of a tile."""
        return WIDTH * self.element_bytes // STEP_BYTES

    @property
    def part_columns(self) -> int:
        """16 KB of them. With a single slot finer parts keep more under way: one is refilled while others are read."""
        return 2 * self.box

    @property
    def part_boxes(self) -> int:
        return self.part_columns // self.box

    @property
    def part_units(self) -> int:
        """Products' columns in a part."""
        return self.part_columns // UNIT_COLUMNS

    @property
    def key_parts(self) -> int:
        return LATENT // self.part_columns

    @property
    def page_parts(self) -> int:
        """Of a CTA's columns of the values of a page."""
        return HALF // self.part_columns

    @property
    def parts(self) -> int:
        """Of a slot."""
        return self.key_parts if self.in_place else self.key_parts + 2 * self.page_parts

    @property
    def unit_steps(self) -> int:
        """Instructions of that product."""
        return PAGE * self.element_bytes // STEP_BYTES

    @property
    def p_boxes(self) -> int:
        """Of P: 64 rows of 128 bytes."""
        return KEYS // self.box

    @property
    def score_columns(self) -> int:
        """Keys of a softmax thread in a tile."""
        return SCORE_COLUMNS // self.groups

    @property
    def softmax_threads(self) -> int:
        return 128 * self.groups

    @property
    def load_warp(self) -> int:
        return 4 * self.groups

    @property
    def product_warp(self) -> int:
        return self.load_warp + 1

    @property
    def threads(self) -> int:
        return 32 * (self.product_warp + 1)

    @property
    def offset(self) -> float:
        """P is 2^offset times the probability before normalisation: e4m3 has 2^-6 as its smallest normal number."""
        return 5.0 if self.element_bytes == 1 else 0.0

    @property
    def slack(self) -> float:
        """Growth of the running maximum (base 2) up to which O is not rescaled; e4m3 ends at 448."""
        return 3.0 if self.element_bytes == 1 else 8.0

    # mbarriers, of which each CTA has its own set; what the leader alone waits for is signalled there alone.
    out_half = 0  # where it is early: of a CTA's last result, half is complete, while the other half is computed
    q_empty = 1
    p_full = 2
    out_full = 3
    scores_full = 4
    keys_full = scores_full + SCORE_STAGES

    @property
    def values_full(self) -> int:
        """Per slot and part of the values, as keys_full has one per slot and part of the keys."""
        return self.keys_full + self.key_parts * self.slots

    @property
    def free(self) -> int:
        """One per slot and part."""
        return self.values_full + 2 * self.page_parts * self.slots

    @property
    def halves(self) -> bool:
        """Whether of a CTA's last result half of the columns is announced while the products with the other half run.
        In 8 bits that would be 128 cycles, and the warp that issues products would run out of uniform registers; in
        place the slots, where the result goes, are still read by then."""
        return not self.in_place and self.element_bytes == 2

    @property
    def moves(self) -> bool:
        """Whether a CTA's last tile has places of its own: the values where its keys were, and P where the end of Q
        was. So neither waits for the products of the tile before: 16 bits leave room for one slot, with one place for
        each."""
        return self.halves

    @property
    def early(self) -> bool:
        """Whether each warp stores columns of both halves, and scores begin with the first part of Q. Where pairs share
        requests, the first half is one group's, and the other the other's."""
        return self.pairs == 1 and self.halves

    def page_and_columns(self, number: Any) -> tuple[Any, Any]:
        """Of a part of the values: a page's parts follow each other, or, to be early with half of the columns, both
        pages of a part do."""
        if self.halves:
            return number % 2, number // 2
        return number // self.page_parts, number % self.page_parts

    @property
    def by_part(self) -> bool:
        """Whether the products with a tile's values are counted by the part they read. That takes a uniform register
        less, without which two pairs in 16 bits run out of them; there it is slower than not, in 8 bits neither."""
        return self.pairs == 2 or self.element_bytes == 1

    @property
    def q_full(self) -> int:
        """The first of q_waits."""
        return self.free + self.parts * self.slots if self.halves else 0

    @property
    def q_waits(self) -> int:
        """One per part of Q, as of the keys, or one in all."""
        return self.key_parts if self.early else 1

    @property
    def out_last(self) -> int:
        """A CTA's last result is complete. Not out_full: nobody need have seen that of the tile before by then."""
        return self.free + self.parts * self.slots + self.q_waits

    @property
    def p_last(self) -> int:
        """Its P is there. Not p_full, likewise."""
        return self.out_last + 1

    @property
    def room(self) -> int:
        """What the other pairs send may be written: each of them has said so of its own memory."""
        return self.p_last + 1 if self.moves else self.free + self.parts * self.slots

    @property
    def sums(self) -> int:
        """The log-sum-exp of all other pairs are there."""
        return self.room + 1

    @property
    def received(self) -> int:
        """One per chunk of what a group's threads get from each of the other pairs."""
        return self.room + 2

    @property
    def mbarriers(self) -> int:
        return self.room if self.pairs == 1 else self.received + (self.pairs - 1) * self.chunks * self.groups

    # What the pairs of a cluster tell each other: each stores a block of O's columns, and gets those of the others.
    @property
    def block_columns(self) -> int:
        """Of tensor memory."""
        return OUT_COLUMNS // self.pairs

    @property
    def stored_columns(self) -> int:
        """Of a block, by a thread."""
        return self.block_columns // self.groups

    @property
    def chunks(self) -> int:
        return self.stored_columns // CHUNK

    @property
    def block_bytes(self) -> int:
        """Of a CTA's rows, in 16 bits; the two halves of the lanes have each a row's columns."""
        return 2 * CTA_ROWS * 2 * self.block_columns

    @property
    def received_bytes(self) -> int:
        """Blocks, and behind all of them the log-sum-exp of the rows, fp32."""
        return (self.pairs - 1) * (self.block_bytes + 4 * CTA_ROWS)

    @property
    def q_boxes(self) -> int:
        """Of the memory that has Q, and after an item's last scores what is received."""
        return max(self.boxes, -(-self.received_bytes // BOX_BYTES))

    def store_row_bytes(self, element_bytes: int) -> int:
        """Of a TMA store of elements of this size."""
        return min(STORE_ROW_BYTES, self.stored_columns * element_bytes)

    def values_part(self, page: Any) -> Any:
        """Where a slot has the values of a page: its first part."""
        return self.page_parts * page + (0 if self.in_place else self.key_parts)

    def key_boxes(self, slot: Any, part: int) -> list[tuple[int, Any]]:
        """Boxes of Q, and of the keys, that have the columns of a part of the keys. The rope's is another."""
        first = self.first_box(slot, part)
        return [(self.part_boxes * part + n, first + n) for n in range(self.part_boxes)]

    def rope_boxes(self, slot: Any) -> tuple[int, Any]:
        """Of Q and of the keys."""
        return self.boxes - 1, self.kv_boxes + slot

    @property
    def rope_steps(self) -> int:
        """Instructions for the rope's share of a tile's scores."""
        return self.key_steps - BOX_STEPS * (self.boxes - 1)

    def first_box(self, slot: Any, part: Any) -> Any:
        return self.part_boxes * (self.parts * slot + part)

    @property
    def kv_boxes(self) -> int:
        """Of all slots, without the ropes'."""
        return self.first_box(self.slots, 0)

    @property
    def p_bytes(self) -> int:
        """Of P, whose memory is also where a result is put for its TMA store."""
        return max(BOX_BYTES * self.p_boxes, 4 * self.groups * STORE_BYTES)

    @property
    def p_box(self) -> int:
        """Where P begins, in boxes from the first slot on: behind the ropes."""
        return self.kv_boxes + self.slots

    @property
    def p_last_box(self) -> int:
        """Where P of a CTA's last tile begins, if it moves, in boxes from P on: at the end of Q, before the slots."""
        return -self.p_boxes - self.p_box

    @property
    def shared_bytes(self) -> int:
        exchange = 4 * self.softmax_threads
        return BOX_BYTES * (self.q_boxes + self.p_box) + self.p_bytes + exchange + 8 * self.mbarriers + 4


def make_layout(element_bytes: int, groups: int, in_place: bool = False, pairs: int = 1) -> Layout:
    """With as many slots as an SM's shared memory holds; ValueError where that is none, or too few to work in place."""
    slots = 0
    while Layout(element_bytes, groups, slots + 1, in_place, pairs).shared_bytes <= SHARED_BYTES:
        slots += 1
    if slots < (2 if in_place else 1):
        raise ValueError(f"no room for the tiles of {8 * element_bytes}-bit elements (in_place={in_place})")
    return Layout(element_bytes, groups, slots, in_place, pairs)
