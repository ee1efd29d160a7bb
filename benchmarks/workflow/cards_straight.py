"""As `cards_times.py`, without Snakemake in between: a process per card has cases timed, one after the other.

    python benchmarks/workflow/cards_straight.py FOLDER [rounds [seconds]]

The cases of `cards_times.txt` are shared out between the first two cards, each case always to the same one. A round is
timing them on both cards at once, then the first card's with the other idle, then the second's. All of a case is what
the workflow does (a worker's server, which forks a process for it), but it is not checked before, and nothing is
started ahead. So two rounds (`rounds`) take 80 s; none is begun that would end later than `seconds` (600).

It needs two cards alike of sm_90a and the builds of the cases in `results/`, or in the folder that CUTESNAKE_BUILDS
names; parameters of the workloads are those of the recorded set of the H200. FOLDER gets `times.json`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import beside_card
import cards
import cards_times

from cutesnake.model import record
from cutesnake.planning.machine import probe
from cutesnake.stages.measure.case import Case, commit, provenance

RECORDED = cards.ROOT / "recorded/nvidia_h200"
ANSWER = "answer "  # what a process of ours says begins so; NVBench and others print, too


def cases_of(keys: list[str]) -> dict[str, Case]:
    """The cases, with the parameters that the recorded set has for them."""
    wanted = set(keys)
    found = {}
    for path in sorted(RECORDED.glob("timing-*.jsonl")):
        for line in path.read_text().splitlines():
            case = json.loads(line)["case"]
            folder = f"{case['operator']}/{case['kernel']}/{case['target']}/{case['variant']['id']}"
            if (key := f"{folder}/{case['workload']}") in wanted:
                build = beside_card.BUILDS / folder
                params = json.loads((build / "build.json").read_text())["variant"]["params"]
                variant, of = {"id": case["variant"]["id"], "params": params}, (case["operator"], case["kernel"])
                parameters, settings = case["parameters"], beside_card.SETTINGS
                found[key] = Case("timing", *of, case["target"], variant, parameters, str(build.resolve()), settings)
    if missing := wanted - set(found):
        sys.exit(f"the recorded set has no timing of {', '.join(sorted(missing))}")
    return found


def timed(case: Case, key: str) -> dict[str, Any]:
    """What `cards.py` keeps of a job."""
    entry = beside_card.ask(case)
    metrics, ended = entry["metrics"] or {}, time.time()
    job = {"stage": "timing", "case": key, "status": entry["status"], "reason": entry["reason"]}
    job |= {"card": (entry["device"] or {}).get("uuid_hash"), "ended": ended, "began": ended - (entry["seconds"] or 0)}
    return job | {key: metrics.get(key) for key in (*cards.KEPT, "calls_per_graph", "measuring_seconds")}


def one_card(keys: list[str]) -> None:
    """In a process that sees one card: warms up, then times all of its cases whenever it is asked to."""
    cases = cases_of(keys)
    with beside_card.server():
        beside_card.ask(cases[keys[0]])
        print(f"{ANSWER}[]", flush=True)
        for _ in sys.stdin:
            print(ANSWER + json.dumps([timed(cases[key], key) for key in keys]), flush=True)


class Process:
    """`one_card`, for the card of a number."""

    def __init__(self, number: int, keys: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "card", *keys],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": str(number)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> list[dict[str, Any]]:
        for line in _opened(self._process.stdout):
            if line.startswith(ANSWER):
                return json.loads(line.removeprefix(ANSWER))
        sys.exit("the process of a card ended")

    def times(self) -> dict[str, Any]:
        """A run in the form of `cards.run`."""
        began = time.time()
        stdin = _opened(self._process.stdin)
        stdin.write("\n")
        stdin.flush()
        return {"each": self.answer(), "seconds": round(time.time() - began, 2)}

    def end(self) -> None:
        _opened(self._process.stdin).close()
        self._process.wait()


def _opened(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise TypeError("a process without pipes")
    return stream


@contextlib.contextmanager
def processes(keys: list[str]) -> Iterator[list[Process]]:
    """One per card, ready."""
    both = [Process(number, keys[number::2]) for number in range(2)]
    try:
        for one in both:
            one.answer()
        yield both
    finally:
        for one in both:
            one.end()


def one_round(both: list[Process]) -> dict[str, Any]:
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda one: one.times(), both))
    alone = [one.times() for one in both]
    return {
        "together": {"each": [job for run in runs for job in run["each"]], "seconds": [run["seconds"] for run in runs]},
        "alone": {str(number): run for number, run in enumerate(alone)},
    }


def main(folder: str, rounds: str = "2", seconds: str = "600") -> None:
    out = Path(folder).resolve()
    out.mkdir(parents=True, exist_ok=True)
    began, done, longest = time.monotonic(), [], 0.0
    device = probe().device
    with processes(cards_times.CASES.read_text().split()) as both:
        while len(done) < int(rounds) and time.monotonic() - began + longest < float(seconds):
            round_began = time.monotonic()
            done.append(one_round(both))
            longest = max(longest, time.monotonic() - round_began)
            found = {"device": device and device.name, "driver": device and device.driver, "commit": commit()}
            found |= {"date": provenance()["created"], "processors": os.cpu_count()}
            found |= {"compared": cards_times.compared(done), "rounds": done}
            record.write_text(out / "times.json", json.dumps(found, indent=1))
    print(json.dumps(found["compared"], indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["card"]:
        one_card(sys.argv[2:])
    else:
        main(*sys.argv[1:])
