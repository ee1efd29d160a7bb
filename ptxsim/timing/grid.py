"""Placement of a grid on a device: CTAs per SM, waves, L1 size."""

from dataclasses import dataclass

from ..core.launch import Launch, Layout
from .device import DeviceError, DeviceModel
from .sass import Code

_LARGE_CLUSTER = 4
_REGISTER_UNIT = 256  # allocation unit of registers per warp
_SHARED_UNIT = 128  # allocation unit of shared memory (bytes) per CTA
_CARVE_OUTS = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)  # shared-memory carve-outs of an SM, KiB


@dataclass(frozen=True, slots=True)
class Placement:
    """A grid on a device: `groups` sets of SMs, each with `slots_per_group` concurrent clusters."""

    clusters: int
    cluster_size: int
    groups: int
    slots_per_group: int
    active_sms: int
    shared_bytes: float  # per CTA, including the system's part
    l1_bytes: float  # per SM

    @property
    def waves(self) -> float:
        return self.clusters / (self.groups * self.slots_per_group)


def blocks_per_sm(launch: Launch, device: DeviceModel, code: Code | None) -> int:
    """Return how many CTAs fit into an SM. Raises DeviceError for none."""
    f = device.constants
    shared = shared_bytes(launch, device)
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
        raise DeviceError(f"a CTA of {launch.name[:60]} does not fit into an SM of the {device.name}: too many {least}")
    return int(limits[least])


def shared_bytes(launch: Launch, device: DeviceModel) -> float:
    """Return the bytes of shared memory that a CTA occupies on its SM."""
    requested = Layout(launch).shared_bytes + device.constants.shared_reserved_bytes
    return -(-requested // _SHARED_UNIT) * _SHARED_UNIT


def l1_bytes(shared: float, device: DeviceModel) -> float:
    """Return the bytes of L1 that `shared` bytes of shared memory leave.

    The driver uses the smallest shared-memory carve-out that does not limit the CTAs (CUDA programming guide,
    shared memory of compute capability 9.0 and 10.0). A carve-out that the program prefers is unknown to the model.
    """
    sizes = (1024.0 * size for size in _CARVE_OUTS)
    return device.constants.l1_and_shared_bytes - next(
        (x for x in sizes if x >= shared), device.constants.shared_bytes_per_sm
    )


def _registers_of_ptx(launch: Launch) -> int:
    """Return the PTX's register limit, or no limit; machine code has the number."""
    maxnreg = launch.kernel.directives.get("maxnreg", ())
    return maxnreg[0] if maxnreg else 32


def placement_of(launch: Launch, device: DeviceModel, code: Code | None) -> Placement:
    """Return the placement of a launch on a device."""
    cx, cy, cz = launch.cluster
    size = cx * cy * cz
    gx, gy, gz = launch.grid
    clusters = gx * gy * gz // size
    sms = device.constants.sm_count if size < _LARGE_CLUSTER else device.constants.large_cluster_sms
    groups = max(int(sms) // size, 1)
    slots_per_group, shared = blocks_per_sm(launch, device, code), shared_bytes(launch, device)
    return Placement(
        clusters=clusters,
        cluster_size=size,
        groups=groups,
        slots_per_group=slots_per_group,
        active_sms=min(clusters, groups) * size,
        shared_bytes=shared,
        l1_bytes=l1_bytes(slots_per_group * shared, device),
    )
