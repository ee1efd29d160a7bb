"""How a grid lies on a card: CTAs per SM, waves, and which clusters stand for all."""

from __future__ import annotations

from dataclasses import dataclass

from ..launch import Launch, Layout
from .device import DeviceError, DeviceModel
from .sass import Code

_LARGE_CLUSTER = 4
_REGISTER_UNIT = 256  # registers are given to warps in such portions
_SHARED_UNIT = 128  # bytes of shared memory to CTAs


@dataclass(frozen=True, slots=True)
class Placement:
    """A grid on a card: `groups` sets of SMs that each hold `places` clusters at once; `rounds` clusters for each."""

    clusters: int
    cluster_size: int
    groups: int
    places: int
    active_sms: int
    shared_bytes: float  # of a CTA, with what the system takes

    @property
    def rounds(self) -> int:
        """Clusters that the fullest group runs."""
        return -(-self.clusters // self.groups)

    @property
    def waves(self) -> float:
        return self.clusters / (self.groups * self.places)


def blocks_per_sm(launch: Launch, card: DeviceModel, code: Code | None) -> int:
    """CTAs of a launch that fit into an SM at once. Raises DeviceError where not even one does."""
    f = card.figures
    shared = shared_bytes(launch, card)
    registers = code.registers if code is not None and code.registers else _registers_of_ptx(launch)
    per_warp = -(-32 * registers // _REGISTER_UNIT) * _REGISTER_UNIT
    limits = {
        "threads": f.threads_per_sm // (32 * launch.warps),
        "CTAs": f.ctas_per_sm,
        "shared memory": f.shared_bytes_per_sm // shared,
        "registers": f.registers_per_sm // (per_warp * launch.warps),
    }
    least = min(limits, key=lambda what: limits[what])
    if limits[least] < 1:
        raise DeviceError(f"a CTA of {launch.name[:60]} does not fit into an SM of the {card.name}: too many {least}")
    return int(limits[least])


def shared_bytes(launch: Launch, card: DeviceModel) -> float:
    """Bytes of shared memory that a CTA takes of its SM."""
    wanted = Layout(launch).shared_bytes + card.figures.shared_reserved_bytes
    return -(-wanted // _SHARED_UNIT) * _SHARED_UNIT


def _registers_of_ptx(launch: Launch) -> int:
    """What PTX says, or else a number that does not limit: only the machine code knows."""
    most = launch.kernel.directives.get("maxnreg", ())
    return most[0] if most else 32


def place(launch: Launch, card: DeviceModel, code: Code | None) -> Placement:
    cx, cy, cz = launch.cluster
    size = cx * cy * cz
    gx, gy, gz = launch.grid
    clusters = gx * gy * gz // size
    sms = card.figures.sm_count if size < _LARGE_CLUSTER else card.figures.large_cluster_sms
    groups = max(int(sms) // size, 1)
    return Placement(
        clusters=clusters,
        cluster_size=size,
        groups=groups,
        places=blocks_per_sm(launch, card, code),
        active_sms=min(clusters, groups) * size,
        shared_bytes=shared_bytes(launch, card),
    )
