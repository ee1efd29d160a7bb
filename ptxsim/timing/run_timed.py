"""`ptxsim.run(..., schedule="timed")`: execute every cluster under the clock."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..core.counts import Counts
from ..core.finding import Finding
from ..core.launch import Launch
from ..core.machine import one_thread
from ..core.progress import STEP_LIMIT
from ..core.result import Result
from ..frontend.syntax import PtxError
from .device import DeviceModel
from .launch_time import Setting, Timed, share_instruction_cache, time_in_full
from .memory_system import Cache
from .own_work import check_static_work
from .predict import prediction
from .sass import code_of
from .timed_machine import TimedMachine


def run_timed(
    launches: Sequence[Launch],
    device: str | Path | DeviceModel,
    *,
    checks: Iterable[str] = (),
    trace: Callable[[str], None] | None = None,
    track: bool = False,
    progress: Callable[[int, int], None] | None = None,
    clock_mhz: float | None = None,
    cache: Cache = "warm",
    code: Mapping[str, Path] | Path | None = None,
    step_limit: int = STEP_LIMIT,
) -> Result:
    """Run launches under the clock; return a Result with a prediction.

    Stops after a launch that deadlocks.
    Raises PtxError for kernels that distribute work at run time: groups of clusters run one after another.
    """
    model = device if isinstance(device, DeviceModel) else DeviceModel.load(device)
    clock = clock_mhz or model.constants.sm_clock_mhz
    begin = time.perf_counter()
    findings: list[Finding] = []
    counts: list[Counts] = []
    timed: list[Timed] = []
    settings: list[Setting] = []
    for launch in launches:
        check_static_work(launch)
    for n, launch in enumerate(launches):
        machine = TimedMachine(launch, model, code_of(launch.name, code), True, frozenset(checks), trace, track)
        machine.step_limit = step_limit
        with np.errstate(all="ignore"), one_thread():
            settings.append(Setting(launch, model, machine.code, clock, cache, earlier=tuple(settings)))
            share_instruction_cache(settings)  # later launches are not known yet
            try:
                timed.append(time_in_full(settings[-1], machine))
            except PtxError:
                if not any(f.kind == "deadlock" for f in machine.findings):
                    raise
        machine.counts.finish(machine.program.blocks, machine.visits, machine.memory)
        findings += machine.findings
        counts.append(machine.counts)
        if progress is not None:
            progress(n + 1, len(launches))
        if any(f.kind == "deadlock" for f in machine.findings):
            break
    predicted = prediction(timed, model, clock, cache) if len(timed) == len(launches) else None
    seconds = time.perf_counter() - begin
    return Result(findings, counts, "timed", 0, seconds, [x.name for x in launches], predicted)
