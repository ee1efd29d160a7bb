"""Local memory, where ptxas spills registers: latency, bandwidth, and what L1 keeps."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import lines, registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "local_memory"
KIB = 1024
PLACE_BYTES = 1024  # local memory of a thread, of which a benchmark uses a part
FAR_BYTES = 8192  # as above, for kernels whose threads have more of it together than L2 has room for
SOME_SMS = (1, 12, 24, 48, 66, 96)  # of which each has a CTA, where others have none
ROUND_BYTES = 64  # that a thread loads or stores in a round of a loop
CHASE_UNROLL = 16
REGISTERS = 64  # of a thread, where registers are spilled
SPILLED = {128: 85, 232: 189}  # values -> words of them that ptxas stores, and loads, in each round
TIMES = (64, 192)
KINDS = {
    "ld": "loads",
    "st": "stores",
    "both": "stores and loads, half each",
}
WIDTHS = {4: ".u32", 8: ".v2.u32", 16: ".v4.u32"}

# A thread's local memory; %c is a mask of the bytes in use (a power of two less one), so that ptxas knows no address.
# Each word in use has the address of the next one, which a chain follows (local addresses have 32 bits).
PLACE = f"""
  .local .align 16 .b8 place[{PLACE_BYTES}];
  .reg .b64 %spill, %at, %from;  .reg .b32 %offset, %back;  {registers("b32", "%v", ROUND_BYTES // 4)}
  mov.u64 %spill, place;  mov.u32 %offset, 0;
FILL:
  cvt.u64.u32 %wide, %offset;  add.u64 %at, %spill, %wide;
  add.u32 %i, %offset, 4;  and.b32 %i, %i, %c;  cvt.u32.u64 %j, %spill;  add.u32 %i, %i, %j;  st.local.u32 [%at], %i;
  add.u32 %offset, %offset, 4;  setp.le.u32 %p, %offset, %c;  @%p bra FILL;
  {lines("add.u32 %v{i}, %thread, {i};", ROUND_BYTES // 4)}
"""
NEXT = f"""
  add.u32 %offset, %offset, {ROUND_BYTES};  and.b32 %offset, %offset, %c;
  cvt.u64.u32 %wide, %offset;  add.u64 %at, %spill, %wide;"""
READ_BACK = "ld.local.u32 %i, [%at];  xor.b32 %sink, %sink, %i;"


def _vector(width: int, first: int) -> str:
    names = [f"%v{first + k}" for k in range(width // 4)]
    return names[0] if width == 4 else "{" + ", ".join(names) + "}"


def _each(template: str, width: int, size: int = ROUND_BYTES, first: int = 0) -> str:
    """Repeat `template` for every access of `width` bytes to `size` bytes.

    Each has its offset and registers.
    """
    return "\n  ".join(
        template.format(type=WIDTHS[width], at=at, values=_vector(width, (first + at) // 4))
        for at in range(0, size, width)
    )


def _load(width: int) -> str:
    body = NEXT + "\n  " + _each("ld.local{type} {values}, [%at+{at}];", width)
    body += "\n  " + lines("xor.b32 %sink, %sink, %v{i};", ROUND_BYTES // 4)
    return timed(f"local_ld_{width}", body, setup=PLACE)


def _store(width: int) -> str:
    body = NEXT + "\n  " + _each("st.local{type} [%at+{at}], {values};", width)
    return timed(f"local_st_{width}", body, setup=PLACE, after=READ_BACK)


def _both(width: int) -> str:
    """Store half of a round's bytes, and load as many stored earlier.

    They were stored half of the bytes in use ago.
    """
    half = ROUND_BYTES // 2
    body = f"""
  add.u32 %offset, %offset, {half};  and.b32 %offset, %offset, %c;
  cvt.u64.u32 %wide, %offset;  add.u64 %at, %spill, %wide;
  add.u32 %back, %offset, %d;  and.b32 %back, %back, %c;
  cvt.u64.u32 %wide, %back;  add.u64 %from, %spill, %wide;
  """
    body += _each("st.local{type} [%at+{at}], {values};", width, half)
    body += "\n  " + _each("ld.local{type} {values}, [%from+{at}];", width, half, half)
    body += "\n  " + lines("xor.b32 %sink, %sink, %v{i};", ROUND_BYTES // 4)
    return timed(f"local_both_{width}", body, setup=PLACE, after=READ_BACK)


def _far(text: str) -> str:
    """Build a kernel with more local memory."""
    return text.replace("local_", "local_far_", 1).replace(f"place[{PLACE_BYTES}]", f"place[{FAR_BYTES}]")


def _spilling(values: int) -> str:
    """Build a kernel with more values than registers, so that ptxas spills.

    It loads each spilled value once a round. It does so by LDL.LU (last use: the line need not be written back), which
    PTX's ld.lu does not become.
    """
    setup = registers("b32", "%v", values) + "\n  " + lines("add.u32 %v{i}, %thread, {i};", values)
    body = lines("mad.lo.u32 %v{i}, %v{i}, %d, %e;", values)
    text = timed(f"spilling_{values}", body, setup=setup, after=lines("xor.b32 %sink, %sink, %v{i};", values))
    assert text.count(")\n{") == 1
    return text.replace(")\n{", f")\n.maxnreg {REGISTERS}\n{{")


def _chain() -> str:
    """Each word says where the next one is."""
    one = "cvt.u64.u32 %at, %offset;  ld.local.u32 %offset, [%at];"
    setup = PLACE + "  cvt.u32.u64 %offset, %spill;"
    return timed("local_chain", "\n  ".join([one] * CHASE_UNROLL), setup=setup, after="mov.u32 %sink, %offset;")


def _there_and_back() -> str:
    """Build stores of a word and loads of it, each load before the next store."""
    one = "st.local.u32 [%at], %v0;  ld.local.u32 %v0, [%from];  add.u32 %v0, %v0, 1;"
    setup = PLACE + "  cvt.u64.u32 %wide, %d;  add.u64 %at, %spill, %wide;  add.u64 %from, %at, %wide;"
    return timed("local_again", "\n  ".join([one] * CHASE_UNROLL), setup=setup, after="mov.u32 %sink, %v0;")


def kernels() -> list[str]:
    moved = [make(width) for make in (_load, _store, _both) for width in WIDTHS]
    moved += [_far(_store(4)), _far(_both(4))]
    return [*moved, *(_spilling(values) for values in SPILLED), _chain(), _there_and_back()]


def expected() -> dict[str, tuple[str, int]]:
    out = {f"local_ld_{width}": ("LDL", ROUND_BYTES // width) for width in WIDTHS}
    out |= {f"local_st_{width}": ("STL", ROUND_BYTES // width) for width in WIDTHS}
    out |= {f"local_both_{width}": ("LDL", ROUND_BYTES // 2 // width) for width in WIDTHS}
    out |= {f"spilling_{values}": ("LDL.LU", 2 * count) for values, count in SPILLED.items()}
    return out | {"local_chain": ("LDL", CHASE_UNROLL), "local_again": ("STL", CHASE_UNROLL)}


def _bandwidth(
    kind: str, width: int, used: int, threads: int, shared_kib: int = 0, sms: int | None = None
) -> Benchmark:
    """Measure bytes per cycle of an SM with one CTA.

    `used` bytes of each thread's local memory are accessed repeatedly. `sms`: how many have a CTA (None: all).
    """

    def measure(gpu: Gpu) -> Reading:
        grid = sms or gpu.processors
        shape = Shape(grid, threads, shared_kib * KIB)
        arguments = Arguments(c=used - 1, d=used // 2)
        per_round = threads * ROUND_BYTES
        kernel = f"local_{'far_' if used > PLACE_BYTES else ''}{kind}_{width}"
        return gpu.slope(kernel, shape, arguments, TIMES, per_round, gpu_bytes=per_round * grid, rate=True)

    parameters = {"what": KINDS[kind], "bytes_a_lane": width, "bytes_in_use_of_a_thread": used, "threads": threads}
    parameters |= {"shared_kib": shared_kib, "sms": sms or "all"}
    return Benchmark("local memory bandwidth", parameters, "bytes per cycle of an SM", measure)


def _spills(values: int, threads: int, shared_kib: int, sms: int | None = None) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        grid = sms or gpu.processors
        shape = Shape(grid, threads, shared_kib * KIB)
        moved = 2 * 4 * SPILLED[values] * threads
        name = f"spilling_{values}"
        return gpu.slope(name, shape, Arguments(d=3, e=5), TIMES, moved, gpu_bytes=moved * grid, rate=True)

    parameters = {"values": values, "registers": REGISTERS, "spilled": SPILLED[values], "threads": threads}
    parameters |= {"shared_kib": shared_kib, "sms": sms or "all"}
    return Benchmark("registers spilled by ptxas", parameters, "bytes per cycle of an SM", measure)


def _latency(kernel: str, what: str, used: int, threads: int = 32, shared_kib: int = 0) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(1, threads, shared_kib * KIB)
        return gpu.slope(kernel, shape, Arguments(c=used - 1), TIMES, CHASE_UNROLL)

    parameters = {"what": what, "bytes_in_use_of_a_thread": used, "threads": threads, "shared_kib": shared_kib}
    return Benchmark("local memory latency", parameters, "cycles", measure)


def benchmarks() -> Iterator[Benchmark]:
    for values in SPILLED:
        for threads in (128, 256, 384):
            for shared_kib in (0, 220):
                yield _spills(values, threads, shared_kib)
        yield _spills(values, 128, 220, sms=1)
    yield _latency("local_chain", "a chain of loads", 64)
    yield _latency("local_chain", "a chain of loads", 1024, 256, 220)  # 256 KiB where L1 has 28
    yield _latency("local_again", "a store and its load", 64)
    for kind in KINDS:
        for width in WIDTHS:
            for threads in (128, 512):
                yield _bandwidth(kind, width, 64, threads)
            yield _bandwidth(kind, width, 64, 512, sms=1)
    for kind in KINDS:
        for shared_kib in (0, 96, 160, 220):  # what an SM has for L1 is 256 KiB less the next larger carve-out
            for used in (64, 128, 256, 512, 1024):
                yield _bandwidth(kind, 4, used, 256, shared_kib)
        for used in (256, 512, 1024):
            yield _bandwidth(kind, 16, used, 256, 220)
        yield _bandwidth(kind, 4, 1024, 256, 220, sms=1)
        for threads in (64, 128, 384):  # the same way, by warps
            yield _bandwidth(kind, 4, 1024, threads, 220)
    for sms in SOME_SMS:
        for values in SPILLED:
            yield _spills(values, 256, 220, sms)
        yield _spills(128, 256, 0, sms)
        for kind in KINDS:
            if sms > 1:
                yield _bandwidth(kind, 4, 1024, 256, 220, sms)
    for used in (2048, 4096, 8192):  # 69, 138 and 277 MB
        for kind in ("st", "both"):
            yield _bandwidth(kind, 4, used, 256, 220)
            yield _bandwidth(kind, 4, used, 256, 220, sms=48)
