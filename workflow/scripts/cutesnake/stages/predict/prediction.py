"""Predict stage: microseconds of a build and workload on any GPU, with a band."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from cutesnake.model import record
from cutesnake.model.catalog import load_operator
from cutesnake.model.records.compile import Compile
from cutesnake.model.records.timing import Timing
from cutesnake.model.targets import TARGETS
from cutesnake.runtime.errors import describe
from cutesnake.runtime.machine_faults import MachineFaultError, machine_fault
from cutesnake.stages.measure.case import Case, make_record
from cutesnake.stages.predict.band import band
from cutesnake.stages.predict.bottleneck import bound
from cutesnake.stages.predict.passes import Passes
from cutesnake.stages.predict.validated import files, read_validated
from cutesnake.stages.simulate.capture import Catcher
from cutesnake.stages.simulate.simulation import NAME, NotSimulatedError, time_limit

LIMIT_SECONDS = 60.0  # of one case, of processor time; most of the sweeps take seconds
MOST_SPANS = 1500  # of the timeline that is kept: its middle
KINDS: tuple[Literal["warm"], Literal["cold"]] = ("warm", "cold")
LAUNCH = ("name", "start_us", "end_us", "cycles", "waves", "blocks_per_sm")
BUSY = ("tensor_percent", "dram_percent", "l2_percent")


def run_case(
    identity: Mapping[str, Any], settings: Mapping[str, Any], build: str, output: str, timing: str | None = None
) -> None:
    """Write the record of a case to `output`.

    `build` is the path of its build.json, `timing` of its timing record if this machine makes one.
    """
    case = Case(stage="predict", build=str(Path(build).resolve().parent), settings=dict(settings), **identity)
    timed = None if timing is None else record.read("timing", timing)
    record.write("predict", output, predict_build(case, record.read("compile", build), empty_launch_of(timed)))


def empty_launch_of(timed: Timing | None) -> float | None:
    """Return the µs of an empty launch measured with a timed case, or None."""
    return timed.metrics.empty_launch_us if timed and timed.metrics else None


def predict_build(case: Case, built: Compile, empty_launch_us: float | None = None) -> dict[str, Any]:
    """Return the record of a case by its build's record; failed builds are not predicted.

    `empty_launch_us` is the time of an empty launch on this host, with which the cold call begins.
    """
    if built.status != "ok":
        message = (built.reason or "no reason given").splitlines()[0][:200]
        return make_record(case, None, f"not predicted: it did not compile ({message})", backend=NAME)
    return predict_case(case, empty_launch_us=empty_launch_us)


def predict_case(case: Case, empty_launch_us: float | None = None) -> dict[str, Any]:
    """Return the record of a case; `case.settings["device"]` names a GPU of ptxsim.

    What cannot be captured or simulated, and what takes too long, is a failed record with its reason.
    """
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # a job takes one core
    import ptxsim

    began = time.monotonic()
    metrics, reason = None, None
    try:
        with time_limit(LIMIT_SECONDS, processor=True):
            metrics = _metrics(case, empty_launch_us)
    except NotSimulatedError as error:
        reason = str(error)
    except (ptxsim.PtxError, ptxsim.CaptureError, ptxsim.DeviceError) as error:
        if fault := machine_fault(error):
            raise MachineFaultError(fault) from error
        reason = describe(RuntimeError(f"ptxsim cannot predict it: {error}"))
    return make_record(case, metrics, reason, backend=NAME, seconds=time.monotonic() - began)


def _metrics(case: Case, empty_launch_us: float | None) -> dict[str, Any]:
    import ptxsim

    gpu = ptxsim.DeviceModel.load(case.settings["device"])
    launches, cubins = captured(case)
    surveys: dict[int, Any] = {}  # what the clusters have to do does not depend on the cache: it is looked at once
    result = {
        kind: ptxsim.predict(launches, gpu, cache=kind, code=cubins, surveys=surveys, single_launch_us=empty_launch_us)
        for kind in KINDS
    }
    sources = Counter(parameter.source for parameter in gpu.parameters.values())
    kept = read_validated(files())
    bounds = {kind: bound((one.end_us - one.start_us, _launch(one)) for one in result[kind].launches) for kind in KINDS}
    known = kept if TARGETS[case.target].published else []
    bands = {kind: band(bounds[kind], kind, len(result[kind].assumed), known) for kind in KINDS}
    main = max(result["cold"].launches, key=lambda launch: launch.end_us - launch.start_us)
    return {
        "device": gpu.name,
        "sm_clock_mhz": result["cold"].sm_clock_mhz,
        **{f"{kind}_us": result[kind].microseconds for kind in KINDS},
        "lone_us": empty_launch_us,
        "bounds": bounds,
        "bands": {kind: {"percent": bands[kind].percent, "words": bands[kind].text} for kind in KINDS},
        "launches": {kind: [_launch(launch) for launch in result[kind].launches] for kind in KINDS},
        **{key: getattr(main, key) for key in BUSY},
        "parameters": {source: sources[source] for source in ("measured", "published", "assumed")},
        "notes": list(dict.fromkeys(note for kind in KINDS for note in result[kind].notes)),
        "timeline": {"launch": main.name, **_middle(main.timeline)},
    }


def captured(case: Case) -> tuple[list[Any], dict[str, Path]]:
    """Return ptxsim's launches of one call, and cubins by function name.

    The tensors are from `make_inputs`, with zeros in place of random numbers unless a kernel's time depends on
    them: else a clock does not look at them, and drawing gigabytes of them would take longer than predicting. What
    PyTorch launches in the call is among the launches.
    """
    import ptxsim

    with cheap_numbers():
        result, cubins = caught(case)
    if any(ptxsim.numbers_matter(launch.kernel) for launch in result):
        result, cubins = caught(case)
    return result, cubins


def caught(case: Case) -> tuple[list[Any], dict[str, Path]]:
    """Return the same with the tensors as they are drawn now."""
    result: list[Any] = []
    processors = TARGETS[case.target].simulated_processors
    assert processors is not None  # the plan predicts for no other target
    catcher = Catcher(case, result.extend, processors)
    operator, workload = load_operator(case.operator), case.workload
    inputs, outputs = operator.make_inputs(workload, 0), operator.make_outputs(workload)
    with catcher.opened():
        runner = case.bind(workload, inputs, outputs)
    with Passes(result.extend):
        runner(0)
    return result, catcher.cubins


@contextmanager
def cheap_numbers() -> Iterator[None]:
    """Within the block `torch.randn` gives zeros, which the system makes only where they are read.

    Lengths and page tables are drawn otherwise and stay what they are.
    """
    import torch

    real = torch.randn

    def zeros(*size: Any, generator: Any = None, **options: Any) -> Any:
        return torch.zeros(*size, **options)

    torch.randn = zeros
    try:
        yield
    finally:
        torch.randn = real


def _launch(launch: Any) -> dict[str, Any]:
    return {key: getattr(launch, key) for key in (*LAUNCH, *BUSY)}


def _middle(timeline: Any) -> dict[str, Any]:
    """Return MOST_SPANS spans around a timeline's middle, in cycles from its start."""
    middle = timeline.cycles / 2
    spans = [span for track in timeline.tracks for span in track.spans]
    near = sorted(spans, key=lambda span: max(span.begin - middle, middle - span.end, 0.0))[:MOST_SPANS]
    begin = min((span.begin for span in near), default=0.0)
    end = max((span.end for span in near), default=timeline.cycles)
    if len(near) < len(spans):  # cut where no track has lost a span yet
        reach = max(max(span.begin - middle, middle - span.end, 0.0) for span in near)
        begin, end = max(0.0, middle - reach), min(timeline.cycles, middle + reach)
    return {
        "cycles": timeline.cycles,
        "begin": begin,
        "end": end,
        "tracks": [
            {
                "name": track.name,
                "spans": [
                    [span.kind, round(max(span.begin, begin)), round(min(span.end, end)), span.what, span.ptx_line]
                    for span in track.spans
                    if span.end > begin and span.begin < end
                ],
            }
            for track in timeline.tracks
        ],
    }
