"""Run the four GPU stages, from a planned case to a record on disk."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.model.case_id import CaseId
from cutesnake.model.records.timing import Timing
from cutesnake.model.stages import GPU_STAGES, NOT_RUN
from cutesnake.planning.arch import C_COMPILERS
from cutesnake.planning.machine import probe
from cutesnake.runtime import machine_check
from cutesnake.runtime.gpu_slots import one_gpu
from cutesnake.runtime.locks import COMPUTING, TIMING, machine_lock
from cutesnake.stages.measure import gpu_process
from cutesnake.stages.measure.case import Case, device_section, make_record
from cutesnake.stages.measure.machine_code import digest_machine_code
from cutesnake.stages.profile import ncu, nsys
from cutesnake.stages.profile.profiled import ProfilerError
from cutesnake.stages.profile.timeline_check import check_timeline
from cutesnake.stages.simulate import simulation

PROFILERS = {"nsys": nsys.profile, "ncu": ncu.profile}


def run_stage(
    stage: str,
    identity: Mapping[str, Any],
    settings: Mapping[str, Any],
    build: Path | str,
    output: Path | str,
    needs: Path | str | Iterable[Path | str] = (),
    backend: str = "cuda",
    log: Path | str | None = None,
    timed: Path | str | None = None,
    planned_gpu: str | None = None,
    made_from: Mapping[str, Any] | None = None,
) -> None:
    """Run `stage` on a case and write its record to `output`.

    `identity` holds operator, kernel, target, variant {id, params} and parameters (of the workload); `build` is the
    path of build.json; `needs` are correctness records of this case that must be ok first; `backend` is `cuda`, or
    `ptxsim` for a correctness case to be simulated, whose progress goes to `log`; `timed` is the case's timing record,
    which a timeline is compared with; `planned_gpu` is the fingerprint of the GPU that it is planned for; `made_from`
    is what the record says that it was made from, if not what the whole job is (`model/provenance.py`). Faults of the
    machine raise, and so does a machine that is not what the plan says; everything else is a record, failed or not.
    """
    needs = [needs] if isinstance(needs, str | Path) else list(needs)  # Snakemake hands one file as a string
    case = Case(stage=stage, build=str(Path(build).resolve().parent), settings=dict(settings), **identity)
    reason = _not_worth_running(build, needs)
    if reason is not None:
        device = None if backend == simulation.NAME else device_section(probe().device)
        done = make_record(case, None, reason, device, backend)
    elif backend == simulation.NAME:
        machine_check.check_tools(C_COMPILERS)
        with machine_lock(COMPUTING):
            done = simulation.simulate(case, log)
    elif stage in PROFILERS:
        with one_gpu(probe()) as machine, machine_lock(TIMING if GPU_STAGES[stage].times else None):
            machine_check.check_gpu(planned_gpu, machine)
            times = record.read("timing", timed) if timed else None
            done = _profile(case, Path(output).with_suffix(""), times)
    else:  # its process waits for a GPU
        done = gpu_process.ask(case.as_dict(), GPU_STAGES[stage].limit_s, gpu=planned_gpu)
    if made_from is not None:
        done["provenance"]["made_from"] = dict(made_from)
    if backend != simulation.NAME and probe().mocked:
        done["provenance"]["mocked"] = True
    if (code := digest_machine_code(Path(build).parent)) is not None:
        done["provenance"]["machine_code"] = code
    record.write(stage, output, done)


def run_case(
    stage: str, build: str, output: str, checked: str | Iterable[str], timed: str | Iterable[str], **arguments: Any
) -> None:
    """Call `run_stage` as its script does, with files `checked` and `timed`."""
    case = CaseId.parse(output)
    times = [case.path("timing")] if timed else []
    needs = [case.path("correctness")] if checked else []
    run_stage(stage, build=build, output=output, needs=needs, timed=times[0] if times else None, **arguments)


def _not_worth_running(build: Path | str, needs: Iterable[Path | str]) -> str | None:
    built = record.read("compile", build)
    if built.status != "ok":
        return f"{NOT_RUN}it did not compile ({(built.reason or 'no reason given').splitlines()[0][:200]})"
    for path in needs:
        before = record.read("correctness", path)
        if before.status != "ok":
            return f"{NOT_RUN}it is not correct ({before.reason})"
    return None


def _profile(case: Case, folder: Path, timing: Timing | None) -> dict[str, Any]:
    """Profile a case; the profiler's report stays in `folder`.

    A failing profiler is a status of the case, and so is a timeline that contradicts `timing`, the case's timing
    record.
    """
    device = device_section(probe().device)
    began = time.monotonic()
    try:
        planned_gpu = device["uuid_hash"] if device else "none"
        metrics, reason = PROFILERS[case.stage](case, folder, planned_gpu, GPU_STAGES[case.stage].limit_s)
    except ProfilerError as error:
        metrics, reason = None, str(error)
    if case.stage == "nsys" and metrics is not None:
        result = check_timeline(metrics["kernels"], metrics["kernels_per_call"], timing)
        metrics |= {"timing_check": result}
        reason = result.reason if result.agrees is False else reason
    return make_record(case, metrics, reason, device, seconds=time.monotonic() - began)
