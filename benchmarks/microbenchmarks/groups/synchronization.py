"""Barriers: CTA, mbarrier, cluster; distributed shared memory."""

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import lines, registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "synchronization"
UNROLL = 16
SHARED = 96 * 1024


def _repeat(one: str, count: int = UNROLL) -> str:
    """`one` with {i} replaced by the number of the copy, for labels."""
    return "\n  ".join(one.replace("{i}", str(i)) for i in range(count))


BARRIERS = """
  .reg .b32 %ping, %pong, %parity; .reg .pred %other, %ready;
  add.u32 %ping, %base, 0;  add.u32 %pong, %base, 8;  mov.u32 %parity, 0;  setp.ge.u32 %other, %thread, 32;
  @%first mbarrier.init.shared.b64 [%ping], 1;  @%first mbarrier.init.shared.b64 [%pong], 1;
  fence.mbarrier_init.release.cluster;
"""
ONE_LANE = "setp.ne.u32 %p, %lane, 0;  @%p bra END;"
MBARRIER_PING_PONG = """
  @%other bra OTHER{i};
  mbarrier.arrive.shared.b64 _, [%ping];
WAITPONG{i}:
  mbarrier.try_wait.parity.shared.b64 %ready, [%pong], %parity;  @!%ready bra WAITPONG{i};
  bra.uni JOIN{i};
OTHER{i}:
  mbarrier.try_wait.parity.shared.b64 %ready, [%ping], %parity;  @!%ready bra OTHER{i};
  mbarrier.arrive.shared.b64 _, [%pong];
JOIN{i}:
  xor.b32 %parity, %parity, 1;
"""
# Two CTAs of a cluster, one lane each: a remote arrival, answered by one.
REMOTE = """
  .reg .b32 %mine, %remote, %parity, %rank, %peer; .reg .pred %other, %ready;
  mov.u32 %rank, %cluster_ctarank;  xor.b32 %peer, %rank, 1;  mov.u32 %parity, 0;  setp.ne.u32 %other, %rank, 0;
  mov.u32 %mine, %base;  mapa.shared::cluster.u32 %remote, %mine, %peer;
  @%first mbarrier.init.shared.b64 [%mine], 1;
  fence.mbarrier_init.release.cluster;
"""
REMOTE_PING_PONG = """
  @%other bra OTHER{i};
  mbarrier.arrive.shared::cluster.b64 _, [%remote];
OTHER{i}:
  mbarrier.try_wait.parity.shared.b64 %ready, [%mine], %parity;  @!%ready bra OTHER{i};
  @%other mbarrier.arrive.shared::cluster.b64 _, [%remote];
  xor.b32 %parity, %parity, 1;
"""
REMOTE_MEMORY = """
  .reg .b32 %at, %rank, %peer; {values}
  mov.u32 %rank, %cluster_ctarank;  xor.b32 %peer, %rank, 1;
  shl.b32 %i, %thread, 4;  add.u32 %at, %base, %i;  mapa.shared::cluster.u32 %at, %at, %peer;
"""


def _remote_memory(kind: str) -> str:
    """Every thread reads or writes 16 bytes at a time in the neighbour's shared memory."""
    setup = REMOTE_MEMORY.format(values=registers("b32", "%v", 4 * 8))
    setup += lines("add.u32 %v{i}, %thread, {i};", 4)
    names = ["{" + ", ".join(f"%v{4 * i + k}" for k in range(4)) + "}" for i in range(8)]
    if kind == "ld":
        body = [f"ld.volatile.shared::cluster.v4.u32 {names[i]}, [%at+{8192 * i}];" for i in range(8)]
        body += [f"xor.b32 %sink, %sink, %v{4 * i};" for i in range(8)]
    else:
        body = [f"st.volatile.shared::cluster.v4.u32 [%at+{8192 * i}], {names[0]};" for i in range(8)]
    return timed(f"remote_{kind}", "\n  ".join(body), setup=setup, cluster=True)


def _remote_chase() -> str:
    """Chase a word that contains its own cluster address, from the other CTA."""
    setup = (
        REMOTE_MEMORY.format(values=".reg .b32 %word;")
        + """
  add.u32 %i, %base, %i;  mapa.shared::cluster.u32 %word, %i, %rank;
  st.shared.u32 [%i], %word;"""
    )
    body = "\n  ".join(["ld.volatile.shared::cluster.u32 %at, [%at];"] * UNROLL)
    return timed("remote_chase", body, setup=setup, after="mov.u32 %sink, %at;", cluster=True)


def kernels() -> list[str]:
    relaxed = "barrier.cluster.arrive.relaxed.aligned;  barrier.cluster.wait.aligned;"
    return [
        timed("bar_sync", _repeat("bar.sync 0;")),
        timed("mbarrier", _repeat(MBARRIER_PING_PONG), setup=BARRIERS, select=ONE_LANE),
        timed("cluster_relaxed", _repeat(relaxed, 4), cluster=True),
        timed("remote_arrive", _repeat(REMOTE_PING_PONG), setup=REMOTE, select=ONE_LANE, cluster=True),
        _remote_memory("ld"),
        _remote_memory("st"),
        _remote_chase(),
    ]


def expected() -> dict[str, tuple[str, int]]:
    return {
        "bar_sync": ("BAR", UNROLL),
        "mbarrier": ("SYNCS", 4 * UNROLL),
        "cluster_relaxed": ("UCGABAR", 8),
        "remote_arrive": ("SYNCS", UNROLL),
        "remote_ld": ("LD", 8),
        "remote_st": ("ST", 8),
        "remote_chase": ("LD", UNROLL),
    }


def _cycles(kernel: str, what: str, warps: int, per_round: int, unit: str = "cycles", cluster: int = 1) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(grid=cluster, block=32 * warps, shared=SHARED, cluster=cluster)
        return gpu.slope(kernel, shape, Arguments(), (32, 160), per_round)

    return Benchmark("synchronization", {"what": what, "warps": warps, "cluster": cluster}, unit, measure)


def _remote_rate(kind: str) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(grid=gpu.processors, block=512, shared=SHARED, cluster=2)
        return gpu.slope(f"remote_{kind}", shape, Arguments(), (32, 160), 8 * 512 * 16, rate=True)

    parameters = {"instruction": f"{kind}.shared::cluster.v4.u32", "warps": 16, "sms": "all"}
    return Benchmark("distributed shared memory", parameters, "bytes per cycle of an SM", measure)


def benchmarks() -> Iterator[Benchmark]:
    round_trip = "cycles per round trip"
    yield _cycles("bar_sync", "bar.sync", 4, UNROLL)
    yield _cycles("mbarrier", "mbarrier.arrive to try_wait, there and back", 2, UNROLL, round_trip)
    yield _cycles("cluster_relaxed", "barrier.cluster arrive.relaxed, wait", 4, 4, cluster=2)
    what = "remote mbarrier.arrive to try_wait, there and back, default scope"
    yield _cycles("remote_arrive", what, 1, UNROLL, round_trip, 2)
    yield _cycles("remote_chase", "ld.shared::cluster, dependent", 1, UNROLL, cluster=2)
    for kind in ("ld", "st"):
        yield _remote_rate(kind)
