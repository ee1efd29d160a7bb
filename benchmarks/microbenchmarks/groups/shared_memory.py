"""Shared memory: latency, bandwidth and bank conflicts of ld, st, ldmatrix and stmatrix."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import lines, registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "shared_memory"
SIZE = 64 * 1024
UNROLL = 16
WIDTHS = {1: ".u32", 2: ".v2.u32", 4: ".v4.u32"}
STRIDES = (0, 1, 2, 3, 4, 8, 16, 32)  # words between lanes

# Word w of the first 2 KiB holds the address of the 16 bytes at 16·w, which makes an address chain of every load.
FILL = """
  mov.u32 %i, %thread;
FILL:
  shl.b32 %j, %i, 2;  add.u32 %j, %base, %j;  shl.b32 %at, %i, 4;  and.b32 %at, %at, 511;  add.u32 %at, %base, %at;
  st.shared.u32 [%j], %at;  add.u32 %i, %i, %threads;  setp.lt.u32 %p, %i, 4096;  @%p bra FILL;
  shl.b32 %at, %lane, 4;  add.u32 %at, %base, %at;
"""
SELF = """
  shl.b32 %j, %thread, 4;  add.u32 %at, %base, %j;  st.shared.v4.u32 [%at], {%at, %at, %at, %at};
"""
DECLARE = ".reg .b32 %at;\n  " + registers("b32", "%v", 4 * UNROLL)


def _vector(width: int, first: int) -> str:
    names = [f"%v{first + i}" for i in range(width)]
    return names[0] if width == 1 else "{" + ", ".join(names) + "}"


def _chase(width: int) -> str:
    names = ["%at", "%v1", "%v2", "%v3"][:width]
    target = names[0] if width == 1 else "{" + ", ".join(names) + "}"
    body = "\n  ".join([f"ld.volatile.shared{WIDTHS[width]} {target}, [%at];"] * UNROLL)
    return timed(f"chase{width}", body, setup=DECLARE + SELF, after="mov.u32 %sink, %at;")


def _through() -> str:
    body = "\n  ".join(["st.volatile.shared.u32 [%at], %at;  ld.volatile.shared.u32 %at, [%at];"] * UNROLL)
    return timed("store_then_load", body, setup=DECLARE + SELF, after="mov.u32 %sink, %at;")


def _atomic() -> str:
    """Each lane on a word of its own, its next operand the word's last value."""
    body = "\n  ".join(["atom.shared.add.u32 %v0, [%at], %v0;"] * UNROLL)
    return timed("atomic", body, setup=DECLARE + SELF + "mov.u32 %v0, %thread;", after="mov.u32 %sink, %v0;")


def _matrix(form: str, count: int) -> str:
    names = ", ".join(["%at", "%v1", "%v2", "%v3"][:count])
    body = "\n  ".join([f"ldmatrix.sync.aligned.m8n8.{form}.shared.b16 {{{names}}}, [%at];"] * UNROLL)
    return timed(f"ldmatrix_chase_{form}", body, setup=DECLARE + FILL, after="mov.u32 %sink, %at;")


def _bandwidth(kind: str, width: int) -> str:
    """Each warp touches 512 B · UNROLL of its own, no bank conflicts."""
    setup = (
        DECLARE
        + f"""
  mov.u32 %j, {4 * width};  mul.lo.u32 %at, %lane, %j;  and.b32 %i, %warp, 7;
  mad.lo.u32 %at, %i, {128 * width}, %at;  add.u32 %at, %base, %at;"""
    )
    if kind == "ld":
        one = [
            f"ld.volatile.shared{WIDTHS[width]} {_vector(width, i * width)}, [%at+{512 * i}];" for i in range(UNROLL)
        ]
        one += [f"xor.b32 %sink, %sink, %v{i}; " for i in range(0, UNROLL * width, width)]
    else:
        setup += "\n  " + lines("add.u32 %v{i}, %thread, {i};", 4)
        one = [f"st.volatile.shared{WIDTHS[width]} [%at+{512 * i}], {_vector(width, 0)};" for i in range(UNROLL)]
    return timed(f"{kind}{width}", "\n  ".join(one), setup=setup)


def _strided(kind: str, width: int) -> str:
    """%c bytes between lanes, wrapped at 64 KiB."""
    setup = (
        DECLARE
        + f"""
  mul.lo.u32 %at, %lane, %c;  and.b32 %at, %at, {SIZE // 2 - 1};  add.u32 %at, %base, %at;
  {lines("add.u32 %v{i}, %thread, {i};", 4)}"""
    )
    if kind == "ld":
        one = [f"ld.volatile.shared{WIDTHS[width]} {_vector(width, i * width)}, [%at];" for i in range(UNROLL)]
        one += [f"xor.b32 %sink, %sink, %v{i};" for i in range(0, UNROLL * width, width)]
    else:
        one = [f"st.volatile.shared{WIDTHS[width]} [%at], {_vector(width, 0)};"] * UNROLL
    return timed(f"strided_{kind}{width}", "\n  ".join(one), setup=setup)


def _matrices(kind: str, count: int) -> str:
    """Load 8 by 8 matrices with %c bytes between rows.

    16 is free of conflicts, 128 puts all in the same banks.
    """
    setup = (
        DECLARE
        + f"""
  mul.lo.u32 %at, %lane, %c;  add.u32 %at, %base, %at;
  {lines("add.u32 %v{i}, %thread, {i};", 4)}"""
    )
    if kind == "ldmatrix":
        one = [
            f"ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{{', '.join(f'%v{i * 4 + k}' for k in range(count))}}}, "
            f"[%at+{512 * i}];"
            for i in range(UNROLL)
        ]
        one += [f"xor.b32 %sink, %sink, %v{i};" for i in range(0, UNROLL * 4, 4)]
        one.append("bar.warp.sync -1;")
        one = [*one, "st.volatile.shared.u32 [%at], %sink;"]  # so that the next round cannot reuse these loads
    else:
        names = ", ".join(f"%v{k}" for k in range(count))
        one = [f"stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [%at+{512 * i}], {{{names}}};" for i in range(UNROLL)]
    return timed(f"{kind}{count}", "\n  ".join(one), setup=setup)


def kernels() -> list[str]:
    out = [_chase(width) for width in WIDTHS] + [_through(), _atomic()]
    out += [_matrix(f"x{count}", count) for count in (1, 2, 4)]
    out += [_bandwidth(kind, width) for kind in ("ld", "st") for width in WIDTHS]
    out += [_strided(kind, width) for kind in ("ld", "st") for width in (1, 4)]
    return out + [_matrices(kind, count) for kind in ("ldmatrix", "stmatrix") for count in (1, 2, 4)]


def expected() -> dict[str, tuple[str, int]]:
    out = {f"chase{width}": ("LDS", UNROLL) for width in WIDTHS} | {"store_then_load": ("LDS", UNROLL)}
    out |= {f"ldmatrix_chase_x{count}": ("LDSM", UNROLL) for count in (1, 2, 4)}
    out |= {f"ld{width}": ("LDS", UNROLL) for width in WIDTHS} | {f"st{width}": ("STS", UNROLL) for width in WIDTHS}
    for width in (1, 4):
        out |= {f"strided_ld{width}": ("LDS", UNROLL), f"strided_st{width}": ("STS", UNROLL)}
    for count in (1, 2, 4):
        out |= {f"ldmatrix{count}": ("LDSM", UNROLL), f"stmatrix{count}": ("STSM", UNROLL)}
    return out


def _latency(kernel: str, what: str) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        return gpu.slope(kernel, Shape(shared=SIZE), Arguments(), (32, 160), UNROLL)

    return Benchmark("shared latency", {"instruction": what, "warps": 1}, "cycles", measure)


def _rate(kernel: str, what: str, warps: int, bytes_each: int, stride: int = 0) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(block=32 * warps, shared=SIZE)
        return gpu.slope(kernel, shape, Arguments(c=stride), (32, 160), UNROLL * warps * bytes_each, rate=True)

    return Benchmark("shared bandwidth", {"instruction": what, "warps": warps}, "bytes per cycle of an SM", measure)


def _conflict(kernel: str, what: str, stride: int, warps: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(block=32 * warps, shared=SIZE)
        return gpu.slope(kernel, shape, Arguments(c=stride), (32, 160), UNROLL * warps)

    parameters = {"instruction": what, "stride_bytes": stride, "warps": warps}
    return Benchmark("shared stride", parameters, "cycles per warp instruction of an SM", measure)


def benchmarks() -> Iterator[Benchmark]:
    for width in WIDTHS:
        yield _latency(f"chase{width}", f"ld.shared{WIDTHS[width]}")
    yield _latency("store_then_load", "st.shared.u32 + ld.shared.u32")
    yield _latency("atomic", "atom.shared.add.u32")
    for count in (1, 2, 4):
        yield _latency(f"ldmatrix_chase_x{count}", f"ldmatrix.x{count}")
    for kind in ("ld", "st"):
        for width in WIDTHS:
            for warps in (1, 4, 16):
                yield _rate(f"{kind}{width}", f"{kind}.shared{WIDTHS[width]}", warps, 128 * width)
    for kind in ("ldmatrix", "stmatrix"):
        for count in (1, 2, 4):
            for warps in (1, 8):
                yield _rate(f"{kind}{count}", f"{kind}.x{count}", warps, 128 * count, stride=16)
        yield _conflict(f"{kind}4", f"{kind}.x4", 128, 8)
    for kind in ("ld", "st"):
        for stride in STRIDES:
            yield _conflict(f"strided_{kind}1", f"{kind}.shared.u32", 4 * stride, 8)
        for stride in (16, 32, 64, 128):
            yield _conflict(f"strided_{kind}4", f"{kind}.shared.v4.u32", stride, 8)
