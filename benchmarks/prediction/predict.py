"""Predictions of the recorded CuTe DSL and cuTile cases vs measured times.

    python -m benchmarks.prediction.predict RESULTS --operators gemm --out workflow/validation/development.jsonl

RESULTS is a results folder with builds for sm_90a; the recorded sets are the repository's. A line per figure:
GPU, case, warm or cold, the SM clock of the samples, measured and predicted microseconds.
What is done lies in OUT.tmp until all is; started again with --resume, the command goes on from there.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ptxsim
from benchmarks.prediction.cases import Measured, Recorded, complete, recorded, tuned
from cutesnake.stages.predict.prediction import captured

ROOT = Path(__file__).resolve().parent.parent.parent

LIMIT_SECONDS = 90  # of one prediction, of CPU time


class TooLongError(RuntimeError):
    """A prediction that took longer than LIMIT_SECONDS."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TooLongError in the body after `seconds` of CPU time."""

    def ring(number: int, frame: Any) -> None:
        raise TooLongError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


Call = tuple[list[Any], dict[str, Path]]  # launches, and cubins by function name
NAMES = ("device", "operator", "kernel", "variant", "workload", "kind")


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key that identifies a row."""
    return tuple(row[name] for name in NAMES)


def launches(case: Recorded, results: Path) -> tuple[Call | None, str | None]:
    """Return a call and None, or None and a reason."""
    try:
        with limited(LIMIT_SECONDS):
            return captured(case.case(results)), None
    except Exception as failure:
        return None, f"{type(failure).__name__}: {failure}"


def rows(
    case: Recorded, results: Path, devices: list[str], done: Collection[tuple[Any, ...]] = ()
) -> Iterator[dict[str, Any]]:
    """Yield a row per measured time of the case that is not done.

    Where something fails, its rows have the reason.
    """
    names = (case.operator, case.kernel, case.variant["id"], case.workload)
    measured = [figure for figure in case.measured if figure.device in devices]
    wanted = [figure for figure in measured if (figure.device, *names, figure.kind) not in done]
    if not wanted:
        return
    call, error = launches(case, results)
    surveys: dict[int, Any] = {}
    for figure in wanted:
        row: dict[str, Any] = {
            "device": figure.device,
            "operator": case.operator,
            "kernel": case.kernel,
            "variant": case.variant["id"],
            "workload": case.workload,
            "kind": figure.kind,
            "sm_clock_mhz": round(figure.clock_mhz),
            "measured_us": round(figure.microseconds, 3),
            "predicted_us": None,
            "error": error,
        }
        if call is not None:
            row |= predicted(call, figure, surveys)
        yield row


def predicted(call: Call, figure: Measured, surveys: dict[int, Any]) -> dict[str, Any]:
    """Predict a time at its samples' clock, or return a reason.

    `surveys` is as in ptxsim.predict.
    """
    (launches, code), began = call, time.process_time()
    try:
        with limited(LIMIT_SECONDS):
            result = ptxsim.predict(
                launches,
                figure.device,
                clock_mhz=figure.clock_mhz,
                cache=figure.kind,  # type: ignore[arg-type]
                code=code,
                surveys=surveys,
                calls_per_graph=figure.calls_per_graph,
                single_launch_us=figure.empty_launch_us,
            )
    except Exception as failure:
        return {"error": f"{type(failure).__name__}: {failure}"}
    finally:
        seconds = round(time.process_time() - began, 2)
    parts = [
        {
            "kernel": part.name,
            "us": round(part.end_us - part.start_us, 2),
            "tensor_percent": round(part.tensor_percent),
            "dram_percent": round(part.dram_percent),
            "l2_percent": round(part.l2_percent),
        }
        for part in result.launches
    ]
    return {"predicted_us": round(result.microseconds, 3), "seconds": seconds, "launches": parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--sets", type=Path, default=ROOT / "recorded")
    parser.add_argument("--operators", nargs="+", default=[])
    parser.add_argument("--devices", nargs="+", default=["h200", "h100"])
    parser.add_argument("--spaces", choices=["timing", "autotune"], help="only records of whole spaces of variants")
    parser.add_argument("--changed", action="store_true", help="hold kernels that have changed since for the same")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", action="store_true", help="keep the rows that an earlier run left in OUT.tmp")
    options = parser.parse_args()
    read = tuned if options.spaces == "autotune" else recorded
    cases = [case for case in read(options.sets) if case.operator in options.operators or not options.operators]
    if options.spaces:
        cases = complete(cases, options.results.resolve(), one_digest=options.spaces == "autotune")
    elif not options.changed:
        refused = {case.name: case.refused(options.results.resolve()) for case in cases}
        for reason in sorted({reason for reason in refused.values() if reason}):
            print(f"left out: {reason} (--changed takes it for the same)", file=sys.stderr)
        cases = [case for case in cases if not refused[case.name]]
    if unknown := sum(case.by_name for case in cases):
        print(f"{unknown} of {len(cases)} cases: no digest of what was measured; held for the same by name and source",
              file=sys.stderr)  # fmt: skip
    cases.sort(key=lambda case: max(figure.microseconds for figure in case.measured))  # what takes long comes last
    scratch = options.out.with_name(options.out.name + ".tmp")
    done = set()
    if options.resume and scratch.exists():
        done = {key_of(json.loads(line)) for line in scratch.read_text().splitlines()}
    with scratch.open("a" if options.resume else "w") as stream:
        for case in cases:
            for row in rows(case, options.results.resolve(), options.devices, done):
                stream.write(json.dumps(row) + "\n")
                stream.flush()
                message = row["error"] or f"{row['predicted_us']:.1f} us against {row['measured_us']:.1f}"
                print(f"{row['device']} {case.name} {row['kind']}: {message}", flush=True)
    scratch.replace(options.out)


if __name__ == "__main__":
    main()
