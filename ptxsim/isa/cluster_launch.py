"""Cluster launch control: a cluster requests the work of an unlaunched one (PTX ISA 9.7.13.18).

On a GPU a request succeeds while clusters of the grid wait for SMs. The simulator runs clusters one after another, so
the first could take the whole grid. Each cluster is therefore granted MAX_GRANTS clusters and refused after that; a
kernel must handle a refusal at any time. The response is opaque in PTX. The simulator stores the index of the first CTA
and a flag.
"""

from dataclasses import dataclass

import numpy as np

from ..core.warp import Address, Fragment
from ..core.work import Kind, Origin, Task
from ..frontend.formats import B128, PRED, U32
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Vec
from ..memory.address import SharedAddress
from .tma import Target

MAX_GRANTS = 3  # clusters granted to each requester: more than a two-stage pipeline holds
BYTES = 16
NO_CLUSTER = (0xFFFFFFFF,) * 3  # the undefined index in a refusal
_MODS = {"async", "shared::cta", "mbarrier::complete_tx::bytes", "multicast::cluster::all"}
_WORD_OF_AXIS = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True, slots=True)
class Request:
    """clusterlaunchcontrol.try_cancel; with `everywhere` every CTA of the cluster gets the response."""

    at: int
    everywhere: bool


@emits("clusterlaunchcontrol.try_cancel", results=0)
def _try_cancel(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, _MODS, skip=2)
    spec = g.bind(Request(g.at, "multicast::cluster::all" in mods))
    to, bar = ins.operands
    g.line(f"launch_try_cancel(f, {spec}, {g.address_tuple(to)}, {g.address_tuple(bar)})")


@dataclass(slots=True, eq=False)
class Response(Task):
    """The response to a request, written to shared memory and counted on mbarriers."""

    origin: Origin
    offset: int
    targets: list[Target]
    kind: Kind = "copy"

    @property
    def label(self) -> str:
        return f"cluster launch control, line {self.origin.line}"

    def run(self) -> None:
        cluster = self.origin.cluster
        granted = next(self.origin.machine.waiting, None) if cluster.granted_clusters < MAX_GRANTS else None
        if granted is None:
            cluster.request_refused = True
        else:
            cluster.granted_clusters += 1
        words = (*(NO_CLUSTER if granted is None else granted[0]), int(granted is not None))
        response = np.array(words, np.uint32).view(np.uint8)
        end = self.offset + BYTES
        for cta, bar in self.targets:
            cta.shared[self.offset : end] = response
            cluster.observer.shared_copied(cta, self.offset, end, self.origin, bar)
            bar.complete_tx(BYTES, self.origin.at)


@runtime
def launch_try_cancel(f: Fragment, spec: Request, to: Address, bar: Address) -> None:
    """Queue a request for each active lane."""
    cta, cluster = f.cta, f.cta.cluster
    for lane, destination, signal in zip(f.lanes(), f.addresses(to), f.addresses(bar), strict=True):
        address, signalled = SharedAddress.of(destination), SharedAddress.of(signal)
        inside = 0 <= address.offset <= cta.shared_bytes - BYTES
        if not inside or address.offset % BYTES:
            kind = "misaligned" if inside else "out-of-bounds"
            f.report(
                spec.at, kind, f"a response of {BYTES} bytes to shared offset {address.offset} of {cta.shared_bytes}"
            )
            continue
        if cluster.request_refused:
            f.report(spec.at, "barrier", "a cluster whose request was refused requests again, which is undefined")
        origin = f.issue(spec.at, f.warp_of(int(lane)))
        targets = []
        for rank in range(len(cluster.ctas)) if spec.everywhere else [address.rank]:
            target, signal_bar = cta.peer(rank), cta.mbarrier(signalled.at(rank))
            if target is None or signal_bar is None:
                f.report(spec.at, "barrier", f"no mbarrier at shared address {signalled.raw:#x} of CTA rank {rank}")
                continue
            cluster.observer.copy_expected(signal_bar, origin, target)
            targets.append(Target(target, signal_bar))
        cluster.post(cluster.pipes.own(cta.rank), Response(origin, address.offset, targets))


@emits("clusterlaunchcontrol.query_cancel")
def _query(g: Generator, ins: Instruction) -> None:
    what, *index = ins.parts[2].split("::")
    target, handle = ins.operands
    words = f"{g.target(handle, B128)}.view('u4')"
    if what == "is_canceled":
        return g.write(target, PRED, f"{words}[:, 3] != 0")
    if what != "get_first_ctaid":
        raise g.unknown(f".{ins.parts[2]}")
    if index:
        return g.write(target, U32, f"{words}[:, {_WORD_OF_AXIS[index[0]]}]")
    if not isinstance(target, Vec):
        raise g.fail("an index that is not a vector")
    for n, item in enumerate(target.items[:3]):
        if item is not None:
            g.write(item, U32, f"{words}[:, {n}]")
    return None
