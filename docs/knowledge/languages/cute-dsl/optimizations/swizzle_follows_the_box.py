"""With the 128-byte swizzle, one column of eight rows lies in eight different banks."""

import cutlass
import cutlass.cute as cute

ROW = 64  # elements of 16 bits: 128 bytes


@cute.jit
def host(offsets: cutlass.Constexpr):
    atom = cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, cute.make_layout((8, ROW), stride=(2 * ROW, 2)))
    plain = cute.make_layout((8, ROW), stride=(2 * ROW, 2))  # strides in bytes
    for row in cutlass.range_constexpr(8):
        offsets.append((atom((row, 0)), plain((row, 0))))


def test_sixteen_bytes_of_eight_rows_fill_all_banks():
    offsets = []
    host(offsets)
    swizzled, plain = ({offset % 128 // 16 for offset in column} for column in zip(*offsets, strict=True))
    assert swizzled == set(range(8)) and plain == {0}
