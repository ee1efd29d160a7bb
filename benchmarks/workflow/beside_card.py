"""What makes a case's time differ when another card of the machine is at work: seven states of one card, in turn.

    python benchmarks/workflow/beside_card.py FILE [seconds]

Three cases whose times had been smaller beside another card (`cards_times_h200.json`) are timed on the first card as
the workflow times them, in each of these states, round after round, in an order that turns from round to round:

alone           behind the measurement before, with the other card idle
after work      behind a second of matrix products on this card
after a pause   behind two seconds in which this card does nothing
beside cases    while cases are timed on the other card, one after the other, each in a process of its own
beside work     while one process multiplies matrices on the other card
beside the host while all processors but two are busy and the other card is idle
unwatched       alone, without the thread that asks the driver for power and temperature (`Telemetry`)

No round is begun that would end later than `seconds` (230). FILE gets every measurement, with the clocks of each kind
of samples, what the driver says of the card before and after, and how fast the host computes; and per case and figure
by how many per cent each state differs from `alone` in the same round. It needs two cards alike of sm_90a, the builds
of the three cases in `results/` or in the folder that CUTESNAKE_BUILDS names, and no DSL.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "workflow/scripts"
sys.path[:0] = [str(ROOT), str(SCRIPTS)]

from cutesnake.model.stages import GPU_STAGES  # noqa: E402
from cutesnake.planning.machine import probe  # noqa: E402
from cutesnake.runtime import worker  # noqa: E402
from cutesnake.stages.measure import timing  # noqa: E402
from cutesnake.stages.measure.case import Case, commit, provenance  # noqa: E402
from cutesnake.stages.measure.telemetry import POWER_CAP  # noqa: E402

BUILDS = Path(os.environ.get("CUTESNAKE_BUILDS", ROOT / "results/compile"))
SETTINGS = {"max_seconds": 2, "max_noise_percent": 0.5}
CASES = {
    "dependent launch": ("dependent_launch/cutile/sm_90a/fp32_plain", {"rows": 256, "columns": 4096}),
    "causal attention": (
        "fmha/tilegym/sm_90a/bf16_h16g1d128_128x128c1o2_causal",
        {"batch": 4, "length": 4096, "causal": True},
    ),
    "PyTorch's attention": ("mla_decode/torch_sdpa/sm_90a/eager", {"batch": 4, "kv_length": 4096}),
}
STATES = ("alone", "after work", "after a pause", "beside cases", "beside work", "beside the host", "unwatched")
RARE = "PyTorch's attention"  # only its bursts had differed, once: it is timed in three states
RARE_STATES = ("alone", "after a pause", "beside cases")
FIGURES = ("cold_us", "hot_us", "second_source_us", "burst_us")
CLOCKS = tuple(timing.SM_CLOCKS[kind] for kind in ("cold", "hot", "graph", "burst"))  # of the figures, in their order
KEPT = (*FIGURES, *CLOCKS, "spread_percent", "samples", "throttled_samples", "hot_samples", "calls_per_graph")
KEPT += ("power_w", "median_power_w", "temperature_c", "throttle_reasons", "measuring_seconds", "flags")
WORK_SECONDS, PAUSE_SECONDS, SETTLE_SECONDS = 1.0, 2.0, 0.7
KEPT_ALIVE_SECONDS = 600.0  # a worker's server would end, and import torch anew, between two states that need it
STEPS = 1_500_000  # of a loop in Python: how fast the host's processor runs


def case_of(name: str, stage: str = "timing", **settings: Any) -> Case:
    folder, parameters = CASES[name]
    operator, kernel, target, variant = folder.split("/")
    params = json.loads((BUILDS / folder / "build.json").read_text())["variant"]["params"]
    build = str((BUILDS / folder).resolve())
    settings = (SETTINGS if stage == "timing" else {}) | settings
    return Case(stage, operator, kernel, target, {"id": variant, "params": params}, parameters, build, settings)


def unwatched(case: Case) -> tuple[dict[str, Any], str | None]:
    """The timing stage without its thread that asks the driver every 10 ms; in a worker."""

    class Nobody(timing.Telemetry):
        def _watch(self) -> None:
            pass

    timing.Telemetry = Nobody  # type: ignore[misc]
    return timing.measure(case)


def work(case: Case) -> tuple[dict[str, Any], str | None]:
    """Products of matrices of 8,192 x 8,192 in bf16, for so many seconds or until a file is there; in a worker."""
    import torch

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out, began, until = torch.empty_like(a), time.monotonic(), case.settings["until"]
    while time.monotonic() - began < case.settings["seconds"] and not (until and Path(until).exists()):
        for _ in range(20):
            torch.mm(a, a, out=out)
        torch.cuda.synchronize()
    return {}, None


@contextlib.contextmanager
def server(holds_driver: bool = True) -> Iterator[None]:
    """A worker's server for the card that CUDA_VISIBLE_DEVICES names, which stays for as long as this lasts.

    `holds_driver`: a process beside it keeps the driver initialized, as the workflow's have since 2026-11-23.
    """
    path = worker.socket_path()
    code = "import contextlib, sys; from cutesnake.runtime import worker; worker.IDLE_SECONDS = float(sys.argv[2]); "
    code += "" if holds_driver else "worker.held_driver = contextlib.nullcontext; "
    command = [sys.executable, "-c", code + "worker.main(sys.argv[1])", str(path), str(KEPT_ALIVE_SECONDS)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        while not path.exists():
            if process.poll() is not None:
                sys.exit("the worker's server did not start")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()
        path.unlink(missing_ok=True)


def ask(case: Case, task: str | None = None) -> dict[str, Any]:
    return worker.ask(case.as_dict(), GPU_STAGES["timing"].limit_s, task)


def neighbour(until: str) -> None:
    """The other card's process: cases while there is a file `cases` beside `until`, products while there is `work`."""
    wanted, number = Path(until).parent, 0
    with server():
        for name in CASES:  # so that nothing is loaded for the first time when it counts
            ask(case_of(name))
        (wanted / "ready").touch()
        while not Path(until).exists():
            (wanted / "busy").touch()
            if (wanted / "cases").exists():
                ask(case_of(list(CASES)[number % len(CASES)]))
                number += 1
            elif (wanted / "work").exists():
                ask(case_of(RARE, seconds=60.0, until=str(wanted / "stop")), "beside_card:work")
            (wanted / "busy").unlink()
            time.sleep(0.02)


@contextlib.contextmanager
def beside(state: str, folder: Path) -> Iterator[None]:
    """What goes on elsewhere in this state."""
    flag = {"beside cases": folder / "cases", "beside work": folder / "work"}.get(state)
    busy = max(1, len(os.sched_getaffinity(0)) - 2) if state == "beside the host" else 0
    processes = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(busy)]
    try:
        (folder / "stop").unlink(missing_ok=True)
        if flag:
            flag.touch()
        if flag or processes:
            time.sleep(2 * SETTLE_SECONDS if flag else SETTLE_SECONDS)
        yield
    finally:
        if flag:
            flag.unlink()
            (folder / "stop").touch()
            while (folder / "busy").exists():  # a case that has begun is measured to its end
                time.sleep(0.01)
        for process in processes:
            process.kill()
            process.wait()


def card() -> dict[str, Any]:
    """What the driver says of both cards now."""
    import pynvml as nvml

    nvml.nvmlInit()
    found = {}
    for number in range(2):
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        found[f"card {number}"] = {
            "sm_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "power_w": nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "temperature_c": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "state": nvml.nvmlDeviceGetPerformanceState(handle),
            "reasons": nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        }
    nvml.nvmlShutdown()
    return found


def host_ms() -> float:
    """How long a loop takes on the host."""
    began = time.perf_counter()
    for _ in range(STEPS):
        pass
    return round((time.perf_counter() - began) * 1e3, 2)


def measured(name: str, state: str) -> dict[str, Any]:
    if state == "after work":
        ask(case_of(name, seconds=WORK_SECONDS, until=None), "beside_card:work")
    elif state == "after a pause":
        time.sleep(PAUSE_SECONDS)
    before = card()
    entry = ask(case_of(name), "beside_card:unwatched" if state == "unwatched" else None)
    metrics = entry["metrics"] or {}
    found = {"case": name, "state": state, "status": entry["status"], "reason": entry["reason"]}
    return found | {key: metrics.get(key) for key in KEPT} | {"before": before, "after": card(), "host_ms": host_ms()}


def measure(file: Path, seconds: float) -> dict[str, Any]:
    began, rows, longest, number = time.monotonic(), [], 0.0, 0
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        other = subprocess.Popen(
            [sys.executable, __file__, "neighbour", str(folder / "end")],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "1"},
        )
        stack.callback(other.wait)
        stack.callback((folder / "end").touch)
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        stack.enter_context(server())
        for case in CASES:
            ask(case_of(case))
        while not (folder / "ready").exists():
            if other.poll() is not None:
                sys.exit("the other card's process ended")
            time.sleep(0.05)
        while number == 0 or time.monotonic() - began + longest < seconds:
            round_began = time.monotonic()
            turned = STATES[number % len(STATES) :] + STATES[: number % len(STATES)]
            for state in turned if number % 2 == 0 else turned[::-1]:
                with beside(state, folder):
                    for case in CASES:
                        if case != RARE or state in RARE_STATES:
                            rows.append({"round": number + 1, **measured(case, state)})
            number += 1
            longest = max(longest, time.monotonic() - round_began)
            found = {"rounds": number, "seconds": round(time.monotonic() - began, 1), "processors": os.cpu_count()}
            device = probe().device
            found |= {"device": device.name if device else None, "driver": device.driver if device else None}
            found |= {"date": provenance()["created"], "commit": commit()}
            file.write_text(json.dumps({**found, "compared": compared(rows), "rows": rows}, indent=1))
    return {**found, "compared": compared(rows)}


def compared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Per case and figure: `alone` in its own unit, and by how many per cent each state differs from it, over rounds.

    A clock stands beside the figure whose samples ran at it. Of a case that the power limit held back in every state
    in which it was watched time times clock is compared, too: such a card's clock differs from one minute to the next,
    and its time with it.
    """
    at = {(row["round"], row["case"], row["state"]): row for row in rows}
    rounds, found = sorted({row["round"] for row in rows}), {}
    for case in CASES:
        mine = [row for row in rows if row["case"] == case and row["status"] == "ok"]
        limited = all(POWER_CAP in (row["throttle_reasons"] or ()) for row in mine if row["state"] != "unwatched")
        by_clock = {f"{key} times clock": (key, clock) for key, clock in zip(FIGURES, CLOCKS, strict=True) if limited}
        plain = {key: (key, None) for key in (*FIGURES, *CLOCKS, "median_power_w", "temperature_c")}
        for name, keys in {**plain, **by_clock}.items():
            alone = {n: value for n in rounds if (value := _value(at.get((n, case, "alone")), *keys))}
            if not alone:
                continue
            entry: dict[str, Any] = {"alone": spread(list(alone.values()))}
            for state in STATES[1:]:
                here = {number: _value(at.get((number, case, state)), *keys) for number in alone}
                if values := [100 * (value / alone[number] - 1) for number, value in here.items() if value]:
                    entry[state] = spread(values)
            found[f"{case}, {name}"] = entry
    return found


def _value(row: dict[str, Any] | None, key: str, clock: str | None) -> float | None:
    """A figure of a row, or it times the clock of its samples."""
    value = (row or {}).get(key)
    if row is None or clock is None or value is None:
        return value
    return value * row[clock] if row.get(clock) else None


def spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 2),
        "least": round(min(values), 2),
        "most": round(max(values), 2),
    }


def main(file: str, seconds: str = "230") -> None:
    if file == "neighbour":
        neighbour(seconds)
        return
    found = measure(Path(file), float(seconds))
    print(json.dumps({**found, "compared": None}))
    for key, entry in found["compared"].items():
        print(f"{key}: " + "; ".join(f"{state} {' '.join(map(str, one.values()))}" for state, one in entry.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
