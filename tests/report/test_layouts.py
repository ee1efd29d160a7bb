"""Layout algebra compared with CuTe's documentation and DSL, the plots against the simulator's own mappings."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest

from cutesnake.report.layouts import Layout, Swizzle, draw, make_layout_tv, make_ordered_layout, parse, zipped_divide
from cutesnake.report.layouts.algebra import complement, composition
from cutesnake.report.layouts.hardware import SWIZZLES, scale_factor_place, tensor_memory_place, wgmma_accumulator
from cutesnake.report.layouts.memories import LANE, draw_atom, draw_scale_factors, draw_tensor_memory
from ptxsim.isa import tensor_product
from ptxsim.isa.accumulator import accumulator
from ptxsim.isa.tensor_product import sparse_rows
from ptxsim.memory.tensor_map import swizzled_chunks


def test_the_thread_value_layout_of_elementwise_add_is_the_dsls() -> None:
    threads, values = make_ordered_layout((4, 32), (1, 0)), make_ordered_layout((4, 4), (1, 0))
    tiler, result = make_layout_tv(threads, values)
    assert tiler == (16, 128)
    assert str(result) == "((32,4),(4,4)):((64,4),(16,1))"  # as kernel.mlir of elementwise_add/cute_tv has it


def test_operations_give_what_the_documentation_of_cute_gives() -> None:
    divided = zipped_divide(parse("(9,(4,8)):(59,(13,1))"), [Layout(3, 3), parse("(2,4):(1,8)")])
    assert str(divided) == "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"
    assert str(composition(parse("(10,2):(16,4)"), parse("(5,4):(1,5)"))) == "(5,(2,2)):(16,(80,4))"
    assert str(complement(parse("(2,4):(1,6)"), 24)) == "3:2"
    assert str(complement(Layout(4, 2), 24)) == "(2,3):(1,8)"


def test_a_division_meets_every_element_once() -> None:
    layout = parse("(8,12):(12,1)")
    inside, tiles = zipped_divide(layout, (4, 3)).modes
    result = zipped_divide(layout, (4, 3))
    assert sorted(result(i, t) for t in range(tiles.size) for i in range(inside.size)) == list(range(96))


@pytest.mark.parametrize("n", [8, 64, 256])
def test_the_accumulator_of_wgmma_lies_as_the_simulator_has_it(n) -> None:
    layout, (rows, columns) = wgmma_accumulator(n), accumulator(n, False)
    for warp in range(4):
        for lane in range(32):
            for register in range(n // 2):
                row, column = 16 * warp + rows[register, lane], columns[register, lane]
                assert layout(32 * warp + lane, register) == row + 64 * column


@pytest.mark.parametrize(("name", "code"), [("32 B", 1), ("64 B", 2), ("128 B", 3)])
def test_a_swizzle_moves_chunks_as_tma_does(name, code) -> None:
    inner = 32 << (code - 1)
    swizzle = SWIZZLES[name]
    assert swizzle is not None
    there = swizzled_chunks(0, 16 * inner, code, 0)
    assert there is not None
    for row in range(16):
        for chunk in range(inner // 16):
            assert swizzle(row * inner + chunk * 16) == 16 * there[row * inner // 16 + chunk]


def test_a_column_of_a_swizzled_box_meets_every_bank_group_and_a_plain_one_meets_one() -> None:
    box = Layout((8, 8), (128, 16))
    plain = draw(box, element_bytes=1)
    swizzled = draw(box, swizzle=Swizzle(3, 4, 3), element_bytes=1)

    def first_column(svg: str) -> list[str]:
        return [text for x, text in re.findall(r'<text x="(56)" y="\d+">(\d+)</text>', svg) for _ in x[:1]]

    assert first_column(plain.svg) == ["0"] * 8
    assert sorted(map(int, first_column(swizzled.svg))) == list(range(0, 32, 4))


def test_a_picture_says_who_has_an_element() -> None:
    plot = draw("((32,4),(4,4)):((64,4),(16,1))", tiler=(16, 128))
    cells = re.findall(r">(T\d+ V\d+)<", plot.svg)
    assert cells[:6] == ["T0 V0", "T0 V1", "T0 V2", "T0 V3", "T1 V0", "T1 V1"]
    assert "first part of 16 x 128" in plot.caption
    assert plot.svg in plot._repr_html_()


@pytest.mark.parametrize(
    "values",
    ["(?,4):(1,8)", "4", "(2,2,2):(1,2,4)", "(3,-1):(1,1)", "():()", "('a',2):(1,2)", "(1.5,2):(1,2)", 5, None],
)
def test_what_cannot_be_drawn_is_said_in_one_line(values) -> None:
    with pytest.raises(ValueError, match=r"static layout|modes|extents") as caught:
        draw(values)
    assert "\n" not in str(caught.value)


def test_a_tile_that_is_too_small_is_named() -> None:
    with pytest.raises(ValueError, match="reaches element"):
        draw("(4,4):(1,4)", tiler=(2, 2))


@pytest.mark.parametrize(("m", "ctas", "rows"), [(64, 1, 64), (128, 1, 128), (128, 2, 64), (256, 2, 128)])
def test_an_accumulator_in_tensor_memory_lies_as_the_simulator_has_it(m, ctas, rows) -> None:
    n = 32
    halved, full = m == 128 and ctas == 2, rows == 128
    lanes = list(range(128)) if full else [*sparse_rows(64, 0)]
    for row in range(m):
        for column in range(n):
            half, wanted = divmod(column, n // 2) if halved else (0, column)
            lane = row % 64 + 64 * half if halved else lanes[row % rows]
            assert tensor_memory_place(m, n, ctas, row, column) == (row // rows, lane, wanted)


def test_a_plot_of_tensor_memory_shows_rows_at_their_lanes_and_both_halves_of_n() -> None:
    plot = draw_tensor_memory(128, 256, 2)
    assert plot.svg.count("rows 64-95<") == 2 and "N 128-255<" in plot.svg  # CTA 1's rows, in both halves of its lanes
    assert "128 of 512 columns" in plot.caption
    assert draw_tensor_memory(256, 256, 2, accumulators=2).svg.count("rows 224-255<") == 2
    sparse = [float(y) for y in re.findall(r'<rect x="84.0" y="([\d.]+)"', draw_tensor_memory(64, 256, 1).svg)]
    assert len(sparse) == 5 and sparse[2] - sparse[1] == 32 * LANE  # the frame, and 16 lanes of each quarter


@pytest.mark.parametrize(("name", "row_bytes"), [("128 B", 128), ("64 B", 64), ("32 B", 32)])
def test_an_atom_holds_each_chunk_once_and_no_two_of_a_column_in_one_bank_group(name, row_bytes) -> None:
    plot = draw_atom(SWIZZLES[name], row_bytes)
    places = {text: (x, y) for x, y, text in re.findall(r'<text x="(\d+)" y="(\d+)">(\d\.\d)<', plot.svg)}
    assert len(places) == len(set(places.values())) == 8 * row_bytes // 16
    rows = 128 // row_bytes  # that lie in all 32 banks together
    assert len({places[f"{row}.0"][0] for row in range(0, 8, rows)}) == row_bytes // 16


def test_scale_factors_lie_where_the_simulator_reads_them(monkeypatch) -> None:
    monkeypatch.setattr(tensor_product, "check_columns", lambda *of: None)
    contents = np.zeros((128, 512), np.uint32)
    for row, group in itertools.product(range(128), range(4)):
        line, place = divmod(scale_factor_place(row, group), 16)
        contents[line, place // 4] |= np.uint32((row + group) << 8 * (place % 4))
    memory = SimpleNamespace(words=contents, unwritten=lambda *of: False)
    product = SimpleNamespace(descriptor=SimpleNamespace(scale="ue8m0", k=4), form=SimpleNamespace(scales=4))
    product.origin = SimpleNamespace(fragment=None, at=0)
    read = tensor_product.TensorProduct._scale_factors(product, SimpleNamespace(tensor_memory=memory), 0, 128, 0)
    assert (np.log2(read) + 127 == np.add.outer(np.arange(128), np.arange(4))).all()
    plot = draw_scale_factors(2)
    assert plot.svg.count(">33.2<") == 1 and "32.3<" in plot.svg and "128.0" not in plot.svg
