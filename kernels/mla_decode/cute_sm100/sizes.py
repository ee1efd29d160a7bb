"""Sizes that the kernel, its schedule and its tests share; imports neither CuTe nor torch."""

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

# The operator: columns of a row of Q or of the cache, tokens of a page.
LATENT, ROPE, PAGE = 512, 64, 64
WIDTH = LATENT + ROPE

# A product of a CTA pair (PTX ISA, tcgen05.mma with cta_group::2).
PAIR_CTAS = 2
TILE_ROWS = 128  # M: query rows of a CTA pair
CTA_ROWS = TILE_ROWS // PAIR_CTAS
TILE_KEYS = 2 * PAGE  # N of Q K^T; each CTA holds one page
PV_COLUMNS = LATENT // 2  # N of P V, in two products; also the value columns that a CTA holds
CTA_PV_COLUMNS = PV_COLUMNS // PAIR_CTAS  # of one product, in each CTA's shared memory
MMA_BYTES = 32  # K of one instruction, bytes of a row
BOX_MMAS = 128 // MMA_BYTES  # instructions along the row of a box

# Shared memory. A box is what one swizzle atom repeats over: 64 rows of 128 bytes (SWIZZLE_128B).
BOX_BYTES = CTA_ROWS * 128
SWIZZLE_BYTES = 16  # that the swizzle moves together
STORE_ROW_BYTES = 64  # most bytes of a row in a TMA store of O; its box has 32 rows
STORE_BYTES = 32 * STORE_ROW_BYTES
SHARED_BYTES = 232_448  # most that a CTA can have (CUDA C++ Programming Guide, compute capability 10.0)

# Tensor memory, in columns of 32 bits. A product of 128 rows by a CTA pair puts a CTA's 64 rows and the lower half of N
# into lanes 0 to 63, and the same rows and the upper half of N into lanes 64 to 127 (PTX ISA, layout B).
S_COLUMNS = TILE_KEYS // 2
S_STAGES = 2
O_COLUMN = S_STAGES * S_COLUMNS  # mutant: tmem overlap
O_COLUMNS = LATENT // 2
TMEM_LANES = 128
TMEM_LANE_STRIDE = 1 << 16  # of an address
TMEM_COLUMNS = 512  # allocated: a power of two that holds O_COLUMN + O_COLUMNS = 384
CHUNK = 32  # columns of O that a thread keeps in registers to rescale or send them

WARP = 32  # threads
WARPGROUP = 4 * WARP  # threads that cover all lanes of tensor memory
COMBINE_WARPS = 4  # of a CTA of the combine kernel, whose registers fit next to a CTA of the split kernel
VECTOR = 8  # columns of a partial result in 16 bytes: one load or store of a thread
RECIPROCAL_BITS = 16  # of the fixed-point reciprocal in a uniform schedule
LN_2 = 0.6931471805599453
NO_MAX = -1.0e30  # running maximum before the first key; finite, so that a masked row gives 2^-inf and no NaN

# Columns of a work tile (int32), see schedule.py. A pair's first row also says which work tiles it has.
REQUEST, ROW_BLOCK, BEGIN, END, PARTIAL, LENGTH, FIRST_WORK, END_WORK, WORK_COLUMNS = 0, 1, 2, 3, 4, 5, 6, 7, 8


class Role(enum.IntEnum):
    """Roles of warps; the value is the order in the CTA."""

    SOFTMAX = 0
    LOAD = 1
    MMA = 2


class Mbarriers(NamedTuple):
    """An array of mbarriers: first index in the CTA, length, and arrivals per phase."""

    first: int
    length: int
    arrivals: int


@dataclass(frozen=True)
class Sizes:
    """Sizes that depend on the variant.

    A stage holds a CTA's share of a tile in parts of 64 rows, each loaded by one copy: the K of its page, then its
    columns of V of both pages. With `in_place`, V is loaded over K. The rope columns of K are one box a stage, behind
    all stages, with the mbarriers of K's first part.
    """

    element_bytes: int  # of Q, cache, P and output: 2 or 1
    groups: int  # softmax warpgroups; they share the columns of a tile
    stages: int
    in_place: bool = False
    pairs: int = 1  # CTA pairs of a cluster, 1, 2 or 4: they split a request's keys and merge in the kernel

    # -- warps ----------------------------------------------------------------------------------------------------

    @property
    def softmax_threads(self) -> int:
        return WARPGROUP * self.groups

    @property
    def softmax_warps(self) -> int:
        return self.softmax_threads // WARP

    def first_warp(self, role: Role) -> int:
        return 0 if role is Role.SOFTMAX else self.softmax_warps + role - Role.LOAD

    @property
    def threads(self) -> int:
        return WARP * (self.first_warp(Role.MMA) + 1)

    @property
    def cluster_ctas(self) -> int:
        return PAIR_CTAS * self.pairs

    # -- products -------------------------------------------------------------------------------------------------

    @property
    def box_columns(self) -> int:
        return 128 // self.element_bytes

    @property
    def row_boxes(self) -> int:
        """Boxes of a row of Q or K, of 8-bit elements the last half zeros."""
        return -(-WIDTH // self.box_columns)

    @property
    def part_boxes(self) -> int:
        """Boxes of a part (16 KB)."""
        return 2

    @property
    def part_columns(self) -> int:
        return self.part_boxes * self.box_columns

    @property
    def part_pv_blocks(self) -> int:
        """Products P V whose columns a part of V holds."""
        return self.part_columns // CTA_PV_COLUMNS

    @property
    def k_parts(self) -> int:
        return LATENT // self.part_columns

    @property
    def page_v_parts(self) -> int:
        """Parts of a CTA's columns of V of one page."""
        return PV_COLUMNS // self.part_columns

    @property
    def v_parts(self) -> int:
        return 2 * self.page_v_parts

    @property
    def stage_parts(self) -> int:
        return self.k_parts if self.in_place else self.k_parts + self.v_parts

    @property
    def rope_mmas(self) -> int:
        """Instructions for the rope columns of Q K^T."""
        return WIDTH * self.element_bytes // MMA_BYTES - BOX_MMAS * (self.row_boxes - 1)

    @property
    def page_mmas(self) -> int:
        """Instructions of one product P V over the keys of a page."""
        return PAGE * self.element_bytes // MMA_BYTES

    @property
    def p_boxes(self) -> int:
        return TILE_KEYS // self.box_columns

    @property
    def thread_scores(self) -> int:
        """Scores of a tile that a softmax thread has."""
        return S_COLUMNS // self.groups

    @property
    def p_log2_scale(self) -> float:
        """P is scaled by 2^this: the smallest normal e4m3 is 2^-6."""
        return 5.0 if self.element_bytes == 1 else 0.0

    @property
    def rescale_log2_threshold(self) -> float:
        """Growth of the maximum (log2) that leaves O unscaled, by P's range: e4m3's is 448."""
        return 3.0 if self.element_bytes == 1 else 8.0

    # -- the last tile of a CTA -----------------------------------------------------------------------------------

    @property
    def overlaps_last(self) -> bool:
        """Whether a CTA's last tile has separate buffers.

        These are V over its K, and P at the end of Q. Its first half of O is announced while the products with the
        other half run. Only 16-bit elements, which leave room for one stage: in 8 bits a half takes 128 cycles, and the
        MMA warp runs out of uniform registers.
        """
        return not self.in_place and self.element_bytes == 2

    @property
    def fine_grained(self) -> bool:
        """Whether waits for Q are by part, and warps store both halves of O."""
        return self.pairs == 1 and self.overlaps_last

    @property
    def loops_over_parts(self) -> bool:
        """Whether P V is counted by the part it reads: one uniform register less.

        Two pairs in 16 bits run out of them without; elsewhere in 16 bits it is slower, in 8 bits neither.
        """
        return self.pairs == 2 or self.element_bytes == 1

    def page_and_block(self, number: Any) -> tuple[Any, Any]:
        """Page and block of V's part `number`; pages alternate to complete half of O."""
        if self.overlaps_last:
            return number % 2, number // 2
        return number // self.page_v_parts, number % self.page_v_parts

    # -- mbarriers ------------------------------------------------------------------------------------------------

    @property
    def q_fulls(self) -> int:
        return self.k_parts if self.fine_grained else 1

    @property
    def mbarriers(self) -> dict[str, Mbarriers]:
        """The mbarriers of each CTA by name.

        Barriers that only the leader waits for are signalled in the leader alone. The last tile has its own (`o_last`,
        `p_last`): nobody need have waited for the tile before.
        """
        p_arrivals = PAIR_CTAS * self.softmax_warps  # mutant: p arrivals
        needed = {
            "o_half" if self.overlaps_last else "q_full": (1, 1),  # half of the last O: its columns 0 to 127 and 256 up
            "q_empty": (1, 2 if self.pairs > 1 else 1),  # also released by the epilogue if Q's memory receives
            "p_full": (1, p_arrivals),
            "o_full": (1, 1),
            "s_full": (S_STAGES, 1),
            "k_full": (self.k_parts * self.stages, 1),
            "v_full": (self.v_parts * self.stages, 1),
            "kv_empty": (self.stage_parts * self.stages, 1),
        }
        if self.overlaps_last:
            needed |= {"q_full": (self.q_fulls, 1), "o_last": (1, 1), "p_last": (1, p_arrivals)}
        if self.pairs > 1:
            blocks = (self.pairs - 1) * self.chunks * self.groups
            needed |= {"merge_empty": (1, self.pairs - 1), "merge_lse_full": (1, 1), "merge_full": (blocks, 1)}
        result: dict[str, Mbarriers] = {}
        first = 0
        for name, (count, arrivals) in needed.items():
            result[name] = Mbarriers(first, count, arrivals)
            first += count
        return result

    @property
    def mbarrier_count(self) -> int:
        return sum(array.length for array in self.mbarriers.values())

    # -- in-kernel merge: each pair stores a block of O's columns, and receives those columns of the others -------

    @property
    def block_columns(self) -> int:
        return O_COLUMNS // self.pairs

    @property
    def thread_columns(self) -> int:
        """Columns of O that a thread stores."""
        return self.block_columns // self.groups

    @property
    def chunks(self) -> int:
        return self.thread_columns // CHUNK

    @property
    def block_bytes(self) -> int:
        """Bytes of a block: 64 rows in 16 bits, from both halves of the lanes."""
        return 2 * CTA_ROWS * 2 * self.block_columns

    @property
    def received_bytes(self) -> int:
        """Blocks of the other pairs, then the rows' log-sum-exp in fp32."""
        return (self.pairs - 1) * (self.block_bytes + 4 * CTA_ROWS)

    # -- shared memory, in boxes: Q (or what is received), stages, ropes of K, P -----------------------------------

    @property
    def q_boxes(self) -> int:
        return max(self.row_boxes, -(-self.received_bytes // BOX_BYTES))

    def store_row_bytes(self, element_bytes: int) -> int:
        """Bytes of a row in a TMA store of elements of this size."""
        return min(STORE_ROW_BYTES, self.thread_columns * element_bytes)

    def v_part(self, page: Any) -> Any:
        """First part of a stage with V of a page."""
        return self.page_v_parts * page + (0 if self.in_place else self.k_parts)

    def k_boxes(self, stage: Any, part: int) -> list[tuple[int, Any]]:
        """Boxes (of Q, of K from the first stage on) of a part of K."""
        first = self.first_box(stage, part)
        return [(self.part_boxes * part + n, first + n) for n in range(self.part_boxes)]

    def rope_boxes(self, stage: Any) -> tuple[int, Any]:
        """Boxes (of Q, of K from the first stage on) with the rope columns."""
        return self.row_boxes - 1, self.kv_boxes + stage

    def first_box(self, stage: Any, part: Any) -> Any:
        return self.part_boxes * (self.stage_parts * stage + part)

    @property
    def kv_boxes(self) -> int:
        """Boxes of all stages, without the ropes."""
        return self.first_box(self.stages, 0)

    @property
    def p_bytes(self) -> int:
        """Bytes of P, whose memory also stages O for its TMA store."""
        return max(BOX_BYTES * self.p_boxes, self.softmax_warps * STORE_BYTES)

    @property
    def p_box(self) -> int:
        """First box of P, from the first stage on."""
        return self.kv_boxes + self.stages

    @property
    def p_last_box(self) -> int:
        """First box from P on of the last tile's P (`overlaps_last`), at Q's end."""
        return -self.p_boxes - self.p_box  # mutant: p last box

    @property
    def shared_bytes(self) -> int:
        boxes = BOX_BYTES * (self.q_boxes + self.p_box) + self.p_bytes
        return boxes + 4 * self.softmax_threads + 8 * self.mbarrier_count + 4


def make_sizes(element_bytes: int, groups: int, in_place: bool = False, pairs: int = 1) -> Sizes:
    """Return the sizes with as many stages as fit; ValueError if too few do."""
    stages = 0
    while Sizes(element_bytes, groups, stages + 1, in_place, pairs).shared_bytes <= SHARED_BYTES:
        stages += 1
    if stages < (2 if in_place else 1):
        raise ValueError(f"no room for the tiles of {8 * element_bytes}-bit elements (in_place={in_place})")
    return Sizes(element_bytes, groups, stages, in_place, pairs)
