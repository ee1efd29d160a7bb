"""This checkout of ptxsim and others, alternating: CPU time of the same launches, as ratios.

`python -m benchmarks.ptxsim.compare FOLDER ROOT… [--rounds N]`: FOLDER is a compiled mla_fp16 (see speed.py), each ROOT
another checkout, such as `git worktree add` makes. Each has a process; in every round all of them run the same launch
once, in changing order, so that what else the machine does meets all equal. A line per measurement and checkout.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
MEASUREMENTS = ("checks on", "checks off", "warps", "ALU 32", "ALU 128", "ALU 512")
LOOPS = 15000  # of the ALU code, so that a run takes some tenths of a second
# reads the name of a measurement, prints the seconds of CPU of one run
SERVER = """
import inspect, sys, time
from pathlib import Path
import ptxsim, speed, torch
from test_examples import mla_capture, mla_inputs
torch.set_num_threads(1)
checks = inspect.signature(ptxsim.run).parameters["checks"].default
launches = mla_capture(Path(sys.argv[1]), mla_inputs(1, 1024, 4))
def run(name):
    begin = time.process_time()
    if name.startswith("ALU"):
        speed.alu(int(name[4:]), int(sys.argv[2]) // 4)
    else:
        schedule = "warps" if name == "warps" else "random"
        ptxsim.run(launches, schedule=schedule, checks=() if name == "checks off" else checks)
    return time.process_time() - begin
run("checks on")
print("ready", flush=True)
for line in sys.stdin:
    print(run(line.strip()), flush=True)
"""


class Server:
    """A process with one checkout's ptxsim, its launches captured and its blocks compiled."""

    def __init__(self, root: Path, folder: Path) -> None:
        paths = (root / part for part in ("", "tests/ptxsim", "tests", "workflow/scripts", "benchmarks/ptxsim"))
        self.root = root
        own = root / ".venv/bin/python"  # an older checkout may need other packages
        self.process = subprocess.Popen(
            [str(own) if own.exists() else sys.executable, "-c", SERVER, str(folder.resolve()), str(LOOPS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PTXSIM_PROCESSES": "1"},
        )
        if self._reply() != "ready":
            raise SystemExit(f"{root}: its ptxsim cannot run {folder}")

    def _reply(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def seconds(self, measurement: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(measurement + "\n")
        self.process.stdin.flush()
        return float(self._reply())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("roots", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    servers = [Server(root.resolve(), options.folder) for root in (*options.roots, TESTS)]
    for measurement in MEASUREMENTS:
        times: dict[Path, list[float]] = {server.root: [] for server in servers}
        for n in range(options.rounds):
            turned = servers[n % len(servers) :] + servers[: n % len(servers)]
            for server in turned if n % 2 else turned[::-1]:
                times[server.root].append(server.seconds(measurement))
        own = times[TESTS]
        for root in options.roots:
            theirs = times[root.resolve()]
            median = statistics.median(a / b for a, b in zip(own, theirs, strict=True))
            print(f"{measurement}, over {root}: median {median:.3f}, least over least {min(own) / min(theirs):.3f}")


if __name__ == "__main__":
    main()
