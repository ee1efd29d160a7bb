"""When a card that does the same thing on and on does it faster, and what another process does at that moment.

    python benchmarks/workflow/beside_card_moments.py FILE [seconds]

`beside_card.py` found a short kernel faster by 4 to 8 % for a part of a second, at the same SM clock, and only while
cases were timed on another card. Here the first card replays a graph of the dependent launch over and over, and every
ten milliseconds it is noted how long a call took and at which SM clock. Meanwhile, one after the other and round after
round, until `seconds` (75) are over:

nothing         for comparison
driver          a process initializes the driver for the other card, waits, and ends
context         it makes a context there, too, and gives it back before it ends
memory          it fills memory there, besides
same card       as `context`, but on the first card
nvml            it asks NVML every ten milliseconds for the other card's power, temperature and clocks
nvml same card  the same of the first card
case            a case is timed on the other card, as the workflow does it

FILE gets every act's moments and every ten milliseconds; what is said counts per act and part of it how much of the
time was fast, which is FAST_PERCENT below the median of the whole run. Needs what `beside_card.py` needs.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import beside_card

FAST_PERCENT = 2.0
CASE = "dependent launch"
REPLAYS, WAIT_SECONDS, BETWEEN_SECONDS = 45, 0.5, 0.7
GIGABYTE = 1 << 30
ACTS = ("nothing", "driver", "context", "memory", "same card", "nvml", "nvml same card", "case")


def watch(until: str) -> None:
    """On the first card, until a file is there: [moment, microseconds a call, MHz] of every ten milliseconds."""
    import torch

    from cutesnake.catalog import load_operator
    from cutesnake.measure.clock import Stamper
    from cutesnake.measure.replay import calls_per_graph, capture, replay

    case = beside_card.case_of(CASE)
    operator, workload = load_operator(case.operator), case.workload
    inputs, outputs = operator.make_inputs(workload, 0, "cuda"), operator.make_outputs(workload, "cuda")
    stream, stamper, rows = torch.cuda.Stream(), Stamper(), []
    runner = case.bind(workload, inputs, outputs)
    torch.cuda.synchronize()
    for _ in range(3):
        runner(stream.cuda_stream)
    calls = calls_per_graph(replay(capture(runner, stream, 1), stream, 1, 5, stamper).us)
    graph = capture(runner, stream, calls)
    replay(graph, stream, calls, 500, stamper)
    Path(until).with_name("ready").touch()
    while not Path(until).exists():
        began = time.monotonic()
        found = replay(graph, stream, calls, REPLAYS, stamper)
        rows.append([round((began + time.monotonic()) / 2, 4), round(found.us, 3), round(found.sm_clock_mhz or 0.0, 1)])
    Path(until).with_name("rows.json").write_text(json.dumps(rows))


def act(what: str) -> None:
    """In a process of its own, which sees the card that it is to use; prints its moments."""
    moments = {"begins": time.monotonic()}
    if what.startswith("nvml"):
        import pynvml as nvml

        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0 if what.endswith("same card") else 1)
        moments["asks"] = time.monotonic()
        while time.monotonic() < moments["asks"] + 2 * WAIT_SECONDS:
            nvml.nvmlDeviceGetPowerUsage(handle)
            nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            time.sleep(0.01)
    else:
        from cuda.bindings import driver

        def ok(answer: tuple) -> Any:
            if answer[0] != driver.CUresult.CUDA_SUCCESS:
                raise RuntimeError(f"{what}: the driver says {answer[0]}")
            return answer[1] if len(answer) > 1 else None

        moments["initializes"] = time.monotonic()
        ok(driver.cuInit(0))
        moments["has initialized"] = time.monotonic()
        time.sleep(WAIT_SECONDS)
        if what != "driver":
            moments["makes a context"] = time.monotonic()
            device = ok(driver.cuDeviceGet(0))
            ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(device))))
            moments["has a context"] = time.monotonic()
            time.sleep(WAIT_SECONDS)
            if what == "memory":
                moments["fills memory"] = time.monotonic()
                memory = ok(driver.cuMemAlloc(8 * GIGABYTE))
                while time.monotonic() < moments["fills memory"] + WAIT_SECONDS:
                    ok(driver.cuMemsetD8(memory, 1, 8 * GIGABYTE))
                    ok(driver.cuCtxSynchronize())
                ok(driver.cuMemFree(memory))
            moments["gives it back"] = time.monotonic()
            ok(driver.cuDevicePrimaryCtxRelease(device))
    moments["ends"] = time.monotonic()
    print(json.dumps(moments))


def done(what: str) -> dict[str, float]:
    """Moments of an act, from before its process began until after it ended."""
    began = time.monotonic()
    if what == "nothing":
        time.sleep(2 * WAIT_SECONDS)
        moments = {"begins": began}
    elif what == "case":
        beside_card.ask(beside_card.case_of(CASE))
        moments = {"begins": began}
    else:
        seen = "0" if what == "same card" else "1"
        command = [sys.executable, __file__, "act", what]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": seen}
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        moments = {"starts": began, **json.loads(told)}
    moments["is over"] = time.monotonic()
    time.sleep(BETWEEN_SECONDS)
    return moments | {"afterwards": time.monotonic()}


def measure(file: Path, seconds: float) -> dict[str, Any]:
    folder, acts, began = file.parent / "moments", [], time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    watcher = subprocess.Popen(
        [sys.executable, __file__, "watch", str(folder / "end")], env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    )
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    try:
        with beside_card.server():
            beside_card.ask(beside_card.case_of(CASE))
            while not (folder / "ready").exists():
                if watcher.poll() is not None:
                    sys.exit("the first card's process ended")
                time.sleep(0.05)
            for number in itertools.count():
                turned = ACTS[number % len(ACTS) :] + ACTS[: number % len(ACTS)]
                for what in turned:
                    acts.append({"round": number + 1, "act": what, "moments": done(what)})
                    if time.monotonic() - began > seconds:
                        break
                else:
                    continue
                break
    finally:
        (folder / "end").touch()
        watcher.wait()
    rows = json.loads((folder / "rows.json").read_text())
    return {"acts": acts, "counted": counted(acts, rows), "rows": rows}


def counted(acts: list[dict[str, Any]], rows: list[list[float]]) -> dict[str, Any]:
    """Per act and part of it, over all rounds: how long it took, its rows, how many were fast, and their median."""
    usual = statistics.median(us for _, us, _ in rows)
    fast = usual * (1 - FAST_PERCENT / 100)
    parts: dict[str, list[tuple[float, float]]] = {}
    for one in acts:
        for (name, begin), (_, end) in itertools.pairwise(one["moments"].items()):
            parts.setdefault(f"{one['act']}: {name}", []).append((begin, end))
    found: dict[str, Any] = {"usual_us": usual, "rows": len(rows), "fast": sum(us < fast for _, us, _ in rows)}
    for part, spans in parts.items():
        inside = [row for row in rows if any(begin <= row[0] < end for begin, end in spans)]
        found[part] = {
            "seconds": round(sum(end - begin for begin, end in spans), 2),
            "rows": len(inside),
            "fast": sum(us < fast for _, us, _ in inside),
            "median_us": statistics.median([us for _, us, _ in inside]) if inside else None,
            "least_us": min((us for _, us, _ in inside), default=None),
        }
    return found


def main(file: str, seconds: str = "75") -> None:
    if file == "watch":
        watch(seconds)
    elif file == "act":
        act(seconds)
    else:
        found = measure(Path(file).resolve(), float(seconds))
        Path(file).write_text(json.dumps(found))
        print(json.dumps(found["counted"], indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
