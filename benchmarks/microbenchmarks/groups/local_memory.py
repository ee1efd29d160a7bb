"""Local memory, where ptxas spills registers: latency, bandwidth, and what L1 keeps."""

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import lines, registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "local_memory"
KIB = 1024
PLACE_BYTES = 1024  # local memory of a thread, of which a benchmark uses a part
ROUND_BYTES = 64  # that a thread loads or stores in a round of a loop
CHASE_UNROLL = 16
REGISTERS = 64  # of a thread, where registers are spilled
SPILLED = {128: 85, 232: 189}  # values -> words of them that ptxas stores, and loads, in each round
TIMES = (64, 192)
# A thread's local memory; %c is a mask of the bytes in use (a power of two less one), so that ptxas knows no address.
# Each word in use has the address of the next one, which a chain follows (local addresses have 32 bits).
PLACE = f"""
  .local .align 16 .b8 place[{PLACE_BYTES}];
  .reg .b64 %spill, %at;  .reg .b32 %offset;  {registers("b32", "%v", ROUND_BYTES // 4)}
  mov.u64 %spill, place;  mov.u32 %offset, 0;
FILL:
  cvt.u64.u32 %wide, %offset;  add.u64 %at, %spill, %wide;
  add.u32 %i, %offset, 4;  and.b32 %i, %i, %c;  cvt.u32.u64 %j, %spill;  add.u32 %i, %i, %j;  st.local.u32 [%at], %i;
  add.u32 %offset, %offset, 4;  setp.le.u32 %p, %offset, %c;  @%p bra FILL;
  {lines("add.u32 %v{i}, %thread, {i};", ROUND_BYTES // 4)}
"""


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


def _loads() -> str:
    """Load words, a round's bytes further each time."""
    body = f"""
  add.u32 %offset, %offset, {ROUND_BYTES};  and.b32 %offset, %offset, %c;
  cvt.u64.u32 %wide, %offset;  add.u64 %at, %spill, %wide;
  """
    body += "\n  ".join(f"ld.local.u32 %v{at // 4}, [%at+{at}];" for at in range(0, ROUND_BYTES, 4))
    body += "\n  " + lines("xor.b32 %sink, %sink, %v{i};", ROUND_BYTES // 4)
    return timed("local_loads", body, setup=PLACE)


def kernels() -> list[str]:
    return [_loads(), *(_spilling(values) for values in SPILLED), _chain()]


def expected() -> dict[str, tuple[str, int]]:
    out = {f"spilling_{values}": ("LDL.LU", 2 * count) for values, count in SPILLED.items()}
    return out | {"local_loads": ("LDL", ROUND_BYTES // 4), "local_chain": ("LDL", CHASE_UNROLL)}


def _bandwidth(used: int, threads: int, shared_kib: int, sms: int | None = None) -> Benchmark:
    """Measure bytes per cycle of an SM with one CTA.

    `used` bytes of each thread's local memory are accessed repeatedly. `sms`: how many have a CTA (None: all).
    """

    def measure(gpu: Gpu) -> Reading:
        shape = Shape(sms or gpu.processors, threads, shared_kib * KIB)
        moved = threads * ROUND_BYTES
        arguments = Arguments(c=used - 1)
        return gpu.slope("local_loads", shape, arguments, TIMES, moved, gpu_bytes=moved * shape.grid, rate=True)

    parameters = {"what": "loads", "bytes_a_lane": 4, "bytes_in_use_of_a_thread": used, "threads": threads}
    parameters |= {"shared_kib": shared_kib, "sms": sms or "all"}
    return Benchmark("local memory bandwidth", parameters, "bytes per cycle of an SM", measure)


def _spills(values: int, threads: int, shared_kib: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(gpu.processors, threads, shared_kib * KIB)
        moved = 2 * 4 * SPILLED[values] * threads
        name, total = f"spilling_{values}", moved * gpu.processors
        return gpu.slope(name, shape, Arguments(d=3, e=5), TIMES, moved, gpu_bytes=total, rate=True)

    parameters = {"values": values, "registers": REGISTERS, "spilled": SPILLED[values], "threads": threads}
    parameters |= {"shared_kib": shared_kib, "sms": "all"}
    return Benchmark("registers spilled by ptxas", parameters, "bytes per cycle of an SM", measure)


def _latency(used: int, threads: int, shared_kib: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(1, threads, shared_kib * KIB)
        return gpu.slope("local_chain", shape, Arguments(c=used - 1), TIMES, CHASE_UNROLL)

    parameters = {"what": "a chain of loads", "bytes_in_use_of_a_thread": used, "threads": threads}
    return Benchmark("local memory latency", parameters | {"shared_kib": shared_kib}, "cycles", measure)


def benchmarks() -> Iterator[Benchmark]:
    for values in SPILLED:
        for threads in (128, 256, 384):
            for shared_kib in (0, 220):
                yield _spills(values, threads, shared_kib)
    yield _latency(64, 32, 0)
    yield _latency(1024, 256, 220)  # 256 KiB where L1 has 28
    yield _bandwidth(64, 512, 0)
    yield _bandwidth(1024, 256, 220, sms=1)
