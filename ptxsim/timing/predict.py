"""`predict`: launches and a device in, microseconds out (public entry point)."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..core.launch import Launch
from ..core.machine import one_thread
from .device import DeviceModel
from .launch_time import Setting, Timed, share_instruction_cache, time_launch
from .memory_system import Cache
from .own_work import check_static_work
from .prediction import Prediction
from .sass import code_of
from .scout import Survey
from .stream import call_us, times


def predict(
    launches: Launch | Iterable[Launch],
    device: str | Path | DeviceModel = "h200",
    *,
    clock_mhz: float | None = None,
    cache: Cache = "warm",
    code: Mapping[str, Path] | Path | None = None,
    surveys: dict[int, Survey] | None = None,
    calls_per_graph: int | None = None,
    single_launch_us: float | None = None,
) -> Prediction:
    """Predict the time of a call that makes these launches one after another.

    device: a name in ptxsim/devices, a device file, or a DeviceModel.
    clock_mhz: the SM clock; default: the device's maximum.
    cache: "warm" for repeated calls, whose data L2 still holds as far as it fits; "cold" for a single call after an L2
    flush.
    code: the cubin that ptxas made of the PTX, or one per kernel name, for instruction counts and stalls. Without it
    they are estimated from the PTX.
    surveys: the work of the launches' grids, by the launch's `id`; filled if missing. A survey takes half of the time
    and depends neither on device nor on cache. Pass one dict to several calls while launches and memory stay.
    calls_per_graph: warm calls per CUDA graph, with graphs replayed without a pause; the calls share the gap between
    graphs.
    None: no such gaps.
    single_launch_us: time of an empty kernel's single launch between two events on the host in question, which a cold
    call starts with. None: the device file's value, from the host of its micro-benchmarks.

    Memory is left unchanged. Raises DeviceError for an unusable device or cubin, PtxError for what cannot be simulated
    and for kernels that distribute work at run time (cluster launch control, a counter).
    """
    model = device if isinstance(device, DeviceModel) else DeviceModel.load(device)
    clock = clock_mhz or model.constants.sm_clock_mhz
    sequence = [launches] if isinstance(launches, Launch) else list(launches)
    for launch in sequence:
        check_static_work(launch)
    with np.errstate(all="ignore"), one_thread():
        settings: list[Setting] = []
        for launch in sequence:
            known_survey = None if surveys is None else surveys.get(id(launch))
            machine_code = code_of(launch.name, code)
            settings.append(Setting(launch, model, machine_code, clock, cache, known_survey, tuple(settings)))
            if surveys is not None:
                surveys[id(launch)] = settings[-1].survey
        share_instruction_cache(settings)
        timed = [time_launch(setting) for setting in settings]
    return prediction(timed, model, clock, cache, calls_per_graph, single_launch_us)


def prediction(
    timed: Sequence[Timed],
    model: DeviceModel,
    clock_mhz: float,
    cache: Cache,
    calls_per_graph: int | None = None,
    single_launch_us: float | None = None,
) -> Prediction:
    """Combine the timed launches of a call into a Prediction."""
    spans = times([timed], model, clock_mhz, cache)
    parts = tuple(x.at(start, end, clock_mhz) for x, (start, end) in zip(timed, spans, strict=True))
    assumed = tuple(name for name in model.assumed() if any(_matters(name, x.launch) for x in timed))
    whole = call_us(timed, model, clock_mhz, cache, calls_per_graph, single_launch_us)
    return Prediction(whole, model.name, clock_mhz, parts, assumed, _notes(timed))


_ABOUT = {  # prefix of a parameter's name → opcodes that it concerns
    "wgmma": ("wgmma",),
    "tcgen05": ("tcgen05",),
    "tmem": ("tcgen05.ld", "tcgen05.st"),
    "tma": ("cp.async.bulk", "cp.reduce.async.bulk"),
    "dsm": ("mapa", "st.async", "ld.shared::cluster", "st.shared::cluster"),
    "cluster": ("barrier.cluster",),
    "mbarrier": ("mbarrier",),
    "named_barrier": ("bar.", "barrier.sync", "barrier.cta"),
    "shuffle": ("shfl", "redux"),
    "shared_atomic": ("atom.shared", "red.shared"),
    "atomic": ("atom", "red."),
    "double": ("fma.rn.f64", "add.f64", "mul.f64", "add.rn.f64", "mul.rn.f64"),
    "packed": ("fma.rn.f32x2", "fma.rn.ftz.f32x2", "mul.rn.ftz.f32x2", "add.rn.ftz.f32x2", "mul.f32x2", "add.f32x2"),
}


def _matters(parameter: str, launch: Launch) -> bool:
    """Return whether a kernel has opcodes that a parameter concerns; general ones always matter."""
    for name, opcodes in _ABOUT.items():
        if parameter.startswith(name):
            return any(ins.op.startswith(opcodes) for ins in launch.kernel.instructions)
    return True


def _notes(timed: Sequence[Timed]) -> tuple[str, ...]:
    """Return the simplifications of a prediction as sentences."""
    notes = []
    if any(not x.exact for x in timed):
        notes.append("Work differs between clusters; most of their times are interpolated by work.")
    if any(x.without_code for x in timed):
        notes.append("No machine code of this PTX: instructions and stalls are estimated.")
    return tuple(notes)
