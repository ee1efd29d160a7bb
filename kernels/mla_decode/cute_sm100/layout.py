"""MLA decode for Blackwell in CuTe DSL: the numbers that the kernel's parts share. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LATENT, ROPE, PAGE = 512, 64, 64
WIDTH = LATENT + ROPE
CTAS = 2  # of a cluster: a pair, whose tensor cores work on one product
ROWS = 128  # query rows of a pair: the M of a product
CTA_ROWS = ROWS // CTAS
KEYS = 2 * PAGE  # of a tile: for the scores each CTA of the pair has one page
HALF = LATENT // 2  # value columns of one product: its N, of which each CTA has a half in shared memory
UNITS = 4  # products of a tile with its values: two pages times two halves of the columns

BOX_BYTES = 64 * 128  # of a TMA load: 64 rows of 128 bytes, the widest swizzle
STEP_BYTES = 32  # of a row, that one instruction multiplies
BOX_STEPS = 128 // STEP_BYTES
STAGE_BOXES = 2  # of a stage of the ring of shared memory that keys and values go through
STORE_ROW_BYTES = 64  # a TMA store has 32 rows of this width, by one warp
STORE_BYTES = 32 * STORE_ROW_BYTES

# Columns of tensor memory. In a product of 128 rows by a pair, lanes 0 to 63 of each CTA hold its 64 rows and the lower
# half of the N columns, lanes 64 to 127 the same rows and the upper half.
SCORE_COLUMNS = KEYS // 2
SCORE_STAGES = 2
OUT_COLUMN = SCORE_STAGES * SCORE_COLUMNS
OUT_COLUMNS = LATENT // 2
TENSOR_MEMORY_COLUMNS = 512  # a power of two that holds OUT_COLUMN + OUT_COLUMNS = 384

LN_2 = 0.6931471805599453
NEVER = -1.0e30  # running maximum before the first key; finite, so that a wholly masked row gives 2^-inf and no NaN

# Columns of a work item (int32), see schedule.py
REQUEST, ROW_BLOCK, BEGIN, END, PARTIAL, LENGTH, ITEM_COLUMNS = 0, 1, 2, 3, 4, 5, 8


@dataclass(frozen=True)
class Layout:
    """What depends on the size of an element and on the number of softmax warps."""

    element_bytes: int  # of Q, cache, P and output: 2 or 1
    groups: int  # of four softmax warps each: they share a tile's columns
    stages: int  # of the ring; or, in place, its slots, each for a page of keys
    in_place: bool = False  # a tile's values take the place of its keys: in_place.py

    @property
    def box(self) -> int:
        """Columns of a TMA load."""
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
    def key_stages(self) -> int:
        """Of the ring, for the keys of a tile. The last holds one box."""
        return -(-self.boxes // STAGE_BOXES)

    @property
    def unit_boxes(self) -> int:
        """Boxes of a CTA's columns in one product with the values of a page."""
        return HALF // CTAS // self.box

    @property
    def unit_steps(self) -> int:
        """Instructions of that product."""
        return PAGE * self.element_bytes // STEP_BYTES

    @property
    def value_stages(self) -> int:
        return UNITS * self.unit_boxes // STAGE_BOXES

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
    q_full = 0
    q_empty = 1
    p_full = 2
    out_full = 3
    scores_full = 4
    kv_full = scores_full + SCORE_STAGES

    @property
    def kv_empty(self) -> int:
        return self.kv_full + self.stages

    # In place: of each slot one per unit for the keys, one per page for the values, one per unit for their release.
    @property
    def keys_full(self) -> int:
        return self.kv_full

    @property
    def values_full(self) -> int:
        return self.keys_full + UNITS * self.stages

    @property
    def unit_free(self) -> int:
        return self.values_full + 2 * self.stages

    @property
    def mbarriers(self) -> int:
        return self.unit_free + UNITS * self.stages if self.in_place else self.kv_empty + self.stages

    def unit_box(self, page: Any, half: int) -> Any:
        """Where a slot has the values of a page, of one half of the columns: the first of unit_boxes."""
        return HALF // self.box * half + self.unit_boxes * page

    @property
    def p_in_slot(self) -> bool:
        """In place, 16 bits: there is no room for P of the second page but in the box that held the rope's keys."""
        return self.in_place and self.element_bytes == 2

    def released_boxes(self, unit: int) -> tuple[int, ...]:
        """The boxes of a slot that are loaded, and released, together: a unit's, and with one of them the rope's."""
        first = self.unit_box(*divmod(unit, 2))
        rope = (self.boxes - 1,) if unit == (UNITS - 1 if self.p_in_slot else 0) else ()
        return (*range(first, first + self.unit_boxes), *rope)

    @property
    def ring_boxes(self) -> int:
        return self.stages * (self.boxes if self.in_place else STAGE_BOXES)

    @property
    def p_bytes(self) -> int:
        """Of P, whose memory is also where a result is put for its TMA store."""
        boxes = 1 if self.p_in_slot else self.p_boxes
        return max(BOX_BYTES * boxes, 4 * self.groups * STORE_BYTES)

    @property
    def p_place(self) -> int:
        """Of P, counted from the beginning of the ring in memory of a TMA store."""
        return self.ring_boxes * BOX_BYTES // STORE_BYTES

    @property
    def shared_bytes(self) -> int:
        """Without what alignment adds."""
        exchange = 3 * 4 * self.softmax_threads
        return BOX_BYTES * (self.boxes + self.ring_boxes) + self.p_bytes + exchange + 8 * self.mbarriers + 4


def make_layout(element_bytes: int, groups: int, in_place: bool = False) -> Layout:
    """With as many stages as an SM's 232,448 bytes (1,024 for alignment) hold."""
    stages = 1
    while Layout(element_bytes, groups, stages + 1, in_place).shared_bytes <= 232_448 - 1024:
        stages += 1
    return Layout(element_bytes, groups, stages, in_place)
