"""When a card that does the same thing on and on does it faster, and what another process does at that moment.

    python benchmarks/workflow/beside_card_moments.py FILE [seconds [ACT;ACT]]

`beside_card.py` found a short kernel faster by 4 to 8 % for a part of a second, at the same SM clock, and only while
cases were timed on another card. Here the first card replays a graph of the dependent launch over and over, with events
around each replay, and every ten milliseconds it is noted how long a call took and at which SM clock. Meanwhile, one
after the other and round after round, until `seconds` (75) are over:

nothing         for comparison
driver          a process initializes the driver for the other card, waits, and ends
context         it makes a context there, too, and gives it back before it ends
memory          it fills memory there, besides
same card       as `context`, but on the first card
nvml            it asks NVML every ten milliseconds for the other card's power, temperature and clocks
nvml same card  the same of the first card
case            a case is timed on the other card, as the workflow does it
large case      another one, of causal attention, which needs more memory and more of PyTorch
check           that one is checked there, which needs more of both again

Behind an act may stand `, held`: a process has the driver initialized for the other card already, and only has it
(`cutesnake.runtime.held_driver`), as it does beside the worker's server. The cases of the others are asked of a server
that lacks it. And `, close`: then replays follow each other without events in between and without a copy from the card
for the clock, 25 at a time, with a pause of 0.4 ms every 75. So they do without the other acts' end of a row.

FILE gets every act's moments and the episodes: when rows became FAST_PERCENT faster than the median of the whole run,
for how long, and behind which moment of which act; per part of an act how many rows it had and how many were fast; and
the rows around each episode. Needs what `beside_card.py` needs.

    python benchmarks/workflow/beside_card_moments.py short FILE < ROWS

makes such a FILE of ROWS, a JSON file with `acts` and all rows, as the run of 2026-11-23, 02:40 UTC, wrote them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beside_card

from cutesnake.planning.machine import probe
from cutesnake.runtime.held_driver import held_driver
from cutesnake.stages.measure.case import Case, commit, provenance

FAST_PERCENT = 2.0
CASE, LARGE_CASE = "dependent launch", "causal attention"
REPLAYS, WAIT_SECONDS, BETWEEN_SECONDS = 45, 0.5, 0.7
GIGABYTE = 1 << 30
ACTS = ("nothing", "driver", "context", "memory", "same card", "nvml", "nvml same card", "case", "large case", "check")
HELD, CLOSE = "held", "close"  # behind the name of an act
CLOSE_REPLAYS, CLOSE_BATCHES, PAUSE_SECONDS = 25, 3, 0.0004
ROWS_AROUND = 3  # each side of an episode
SLOWEST_AMONG_FAST = 3  # rows of an episode may have as many of the usual time between them


def watch(until: str) -> None:
    """On the first card, until a file is there: [moment, microseconds a call, MHz] of every row.

    While there is a file `close` beside it replays are close to each other; rows then have no clock.
    """
    import torch

    from cutesnake.model.catalog import load_operator
    from cutesnake.stages.measure.clock import Stamper
    from cutesnake.stages.measure.replay import capture, filled, replay

    case = beside_card.case_of(CASE)
    operator, workload = load_operator(case.operator), case.workload
    inputs, outputs = operator.make_inputs(workload, 0, "cuda"), operator.make_outputs(workload, "cuda")
    stream, stamper, rows = torch.cuda.Stream(), Stamper(), []
    runner = case.bind(workload, inputs, outputs)
    torch.cuda.synchronize()
    for _ in range(3):
        runner(stream.cuda_stream)
    graph, calls = filled(runner, capture(runner, stream, 1), stream, stamper)
    replay(graph, stream, calls, 500, stamper)
    Path(until).with_name("ready").touch()
    close = Path(until).with_name(CLOSE)
    while not Path(until).exists():
        began = time.monotonic()
        if close.exists():
            rows += close_rows(graph, stream, calls)
        else:
            found = replay(graph, stream, calls, REPLAYS, stamper)
            rows.append(
                [round((began + time.monotonic()) / 2, 4), round(found.us, 3), round(found.sm_clock_mhz or 0, 1)]
            )
    Path(until).with_name("rows.json").write_text(json.dumps(rows))


def close_rows(graph: Any, stream: Any, calls: int) -> list[list[float]]:
    import torch

    marks = [torch.cuda.Event(enable_timing=True) for _ in range(CLOSE_BATCHES + 1)]
    began = time.monotonic()
    with torch.cuda.stream(stream):
        marks[0].record()
        for mark in marks[1:]:
            for _ in range(CLOSE_REPLAYS):
                graph.replay()
            mark.record()
    stream.synchronize()
    each_ms = [begin.elapsed_time(end) for begin, end in itertools.pairwise(marks)]
    middles = itertools.accumulate(each_ms)
    rows = [
        [round(began + (after - ms / 2) / 1e3, 4), round(ms * 1e3 / CLOSE_REPLAYS / calls, 3), 0.0]
        for ms, after in zip(each_ms, middles, strict=True)
    ]
    time.sleep(PAUSE_SECONDS)
    return rows


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


@functools.cache
def cases() -> dict[str, Case]:
    """What is asked of the worker's server of the other card, by the name of the act."""
    check = beside_card.case_of(LARGE_CASE, "correctness", seeds=[0], distributions=["randn"])
    return {"case": beside_card.case_of(CASE), "large case": beside_card.case_of(LARGE_CASE), "check": check}


@contextlib.contextmanager
def driver_held(held: bool) -> Iterator[None]:
    """For the other card, by a process that has begun long enough ago; what it costs to begin is not of the act."""
    if not held:
        yield
        return
    with held_driver() as process:
        if process.stdout is None or process.stdout.readline().strip() != "0":
            sys.exit("the driver could not be held")
        time.sleep(BETWEEN_SECONDS)
        yield


@contextlib.contextmanager
def watched(flag: Path, closely: bool) -> Iterator[None]:
    """The first card's replays are close to each other for as long as this lasts, or are not."""
    if closely:
        flag.touch()
        time.sleep(BETWEEN_SECONDS)
    yield
    if closely:
        flag.unlink()
        time.sleep(BETWEEN_SECONDS)


def done(act: str, folder: Path) -> dict[str, float]:
    """Moments of an act, from before its process began until after it ended."""
    what, *how = act.split(", ")
    with watched(folder / CLOSE, CLOSE in how), driver_held(HELD in how):
        began = time.monotonic()
        if what == "nothing":
            time.sleep(2 * WAIT_SECONDS)
            moments = {"begins": began}
        elif what in cases():
            took = beside_card.ask(cases()[what])["seconds"] or 0.0
            moments = {"asks": began, "begins": time.monotonic() - took}
        else:
            seen = "0" if what == "same card" else "1"
            command = [sys.executable, __file__, "act", what]
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": seen}
            told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            moments = {"starts": began, **json.loads(told)}
        moments["is over"] = time.monotonic()
        time.sleep(BETWEEN_SECONDS)
        return moments | {"afterwards": time.monotonic()}


def measure(file: Path, seconds: float, wanted: list[str]) -> dict[str, Any]:
    folder, acts, began = file.parent / "moments", [], time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    watcher = subprocess.Popen(
        [sys.executable, __file__, "watch", str(folder / "end")], env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    )
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    try:
        with beside_card.server(holds_driver=False):
            for what in cases().keys() & {act.split(", ")[0] for act in wanted}:
                done(what, folder)
            while not (folder / "ready").exists():
                if watcher.poll() is not None:
                    sys.exit("the first card's process ended")
                time.sleep(0.05)
            for number in itertools.count():
                first = number % len(wanted)
                for act in wanted[first:] + wanted[:first]:
                    acts.append({"round": number + 1, "act": act, "moments": done(act, folder)})
                    if time.monotonic() - began > seconds:
                        break
                else:
                    continue
                break
    finally:
        (folder / "end").touch()
        watcher.wait()
    rows = json.loads((folder / "rows.json").read_text())
    device = probe().device
    found = {"device": device and device.name, "driver": device and device.driver, "commit": commit()}
    found |= {"date": provenance()["created"], "processors": os.cpu_count()}
    return {**found, **told(acts, rows)}


def told(acts: list[dict[str, Any]], rows: list[list[float]]) -> dict[str, Any]:
    """What FILE gets of a run's acts and rows."""
    _, fast = usual_and_fast(rows)
    near = {
        place
        for number, (_, us, *_) in enumerate(rows)
        if us < fast
        for place in range(number - ROWS_AROUND, number + ROWS_AROUND + 1)
    }
    return {
        "counted": counted(acts, rows),
        "episodes": episodes(acts, rows),
        "acts": acts,
        "rows around episodes": [row for number, row in enumerate(rows) if number in near],
    }


def usual_and_fast(rows: list[list[float]]) -> tuple[float, float]:
    """The median of all rows, and what a row must be below to be fast."""
    usual = statistics.median(us for _, us, *_ in rows)
    return usual, usual * (1 - FAST_PERCENT / 100)


def episodes(acts: list[dict[str, Any]], rows: list[list[float]]) -> list[dict[str, Any]]:
    """Runs of fast rows, in order: how long, how fast, and behind which moment of which act they began."""
    usual, fast = usual_and_fast(rows)
    groups: list[list[int]] = []
    for number, (_, us, *_) in enumerate(rows):
        if us < fast:
            if groups and number - groups[-1][-1] <= SLOWEST_AMONG_FAST:
                groups[-1].append(number)
            else:
                groups.append([number])
    moments = sorted((at, one["act"], one["round"], name) for one in acts for name, at in one["moments"].items())
    found = []
    for group in groups:
        begin, end = rows[group[0]][0], rows[group[-1]][0]
        width = (end - begin) / max(1, len(group) - 1)  # a row's moment is the middle of its batch
        at, act, number, behind = max((m for m in moments if m[0] <= begin), default=(begin, None, None, None))
        then, _, _, before = min((m for m in moments if m[0] > begin), default=(end, None, None, None))
        found.append(
            {
                "seconds": round(end - begin + width, 4),
                "rows": len(group),
                "percent": round(100 * (statistics.median(rows[n][1] for n in group) / usual - 1), 2),
                "act": act,
                "round": number,
                "behind": behind,
                "by_seconds": round(begin - at, 4),
                "before": before,
                "ahead_by_seconds": round(then - begin, 4),
            }
        )
    return found


def counted(acts: list[dict[str, Any]], rows: list[list[float]]) -> dict[str, Any]:
    """Per act and part of it, over all rounds: how long it took, its rows, how many were fast, and their median."""
    usual, fast = usual_and_fast(rows)
    parts: dict[str, list[tuple[float, float]]] = {}
    for one in acts:
        for (name, begin), (_, end) in itertools.pairwise(one["moments"].items()):
            parts.setdefault(f"{one['act']}: {name}", []).append((begin, end))
    found: dict[str, Any] = {"usual_us": usual, "rows": len(rows), "fast": sum(us < fast for _, us, *_ in rows)}
    for part, spans in parts.items():
        inside = [row[1] for row in rows if any(begin <= row[0] < end for begin, end in spans)]
        found[part] = {
            "times": len(spans),
            "seconds": round(sum(end - begin for begin, end in spans), 2),
            "rows": len(inside),
            "fast": sum(us < fast for us in inside),
            "median_us": statistics.median(inside) if inside else None,
            "least_us": min(inside, default=None),
        }
    return found


def main(file: str, seconds: str = "75", acts: str = "") -> None:
    if file == "watch":
        watch(seconds)
    elif file == "act":
        act(seconds)
    elif file == "short":
        found = json.load(sys.stdin)
        about = {key: value for key, value in found.items() if key not in ("counted", "episodes", "acts", "rows")}
        Path(seconds).write_text(json.dumps({**about, **told(found["acts"], found["rows"])}))
    else:
        found = measure(Path(file).resolve(), float(seconds), acts.split(";") if acts else list(ACTS))
        Path(file).write_text(json.dumps(found))
        print(json.dumps(found["counted"], indent=1))
        for one in found["episodes"]:
            print(json.dumps(one))


if __name__ == "__main__":
    main(*sys.argv[1:])
