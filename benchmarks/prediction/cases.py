"""Recorded times to predict, and the launches of a case without a GPU."""

import ast
import json
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cutesnake.model.paths import ROOT
from cutesnake.stages.measure.case import Case
from cutesnake.stages.measure.machine_code import digest_machine_code
from cutesnake.stages.predict.validated import HIGHEST_MHZ

KINDS = {"warm": ("hot_us", "hot_sm_clock_mhz"), "cold": ("cold_us", "sm_clock_mhz")}
DSLS = ("cute", "cutile")
DEVICES = {"nvidia_h200": "h200", "nvidia_h100_80gb_hbm3": "h100"}  # folder of a recorded set -> ptxsim's device


@dataclass(frozen=True)
class Measured:
    """One recorded time of a call, warm or cold, with its SM clock (MHz).

    `calls_per_graph` is how many warm calls stood in each of the graphs that were replayed; None where there were none.
    `lone_us` is what a single launch of nothing took on the same host, of a cold figure; None where nobody measured it.
    """

    device: str
    kind: str
    microseconds: float
    clock_mhz: float
    calls_per_graph: int | None = None
    empty_launch_us: float | None = None


@dataclass(frozen=True)
class Origin:
    """Origin of a measurement: the project's commit, and the digest of machine code."""

    commit: str | None
    machine_code: str | None


@dataclass(frozen=True)
class NamedCase:
    """A kernel's variant, {"id", "params"}, on a workload, with the workload's fields."""

    operator: str
    kernel: str
    variant: dict[str, Any]
    workload: str
    parameters: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.operator}/{self.kernel}/{self.variant['id']}/{self.workload}"


@dataclass(frozen=True)
class Recorded(NamedCase):
    """A case for a target, and everything that was measured of it."""

    target: str
    measured: tuple[Measured, ...]
    dsl: str = "cute"
    origins: frozenset[Origin] = frozenset()

    def refused(self, results: Path) -> str | None:
        """Return why the build in `results` is not the measured one, or None.

        The digest of the machine code decides where records have one, else the kernel's Python.
        """
        built = f"{self.operator}/{self.kernel}/{self.variant['id']}"
        for origin in self.origins:
            if origin.machine_code is None:
                reason = changed(origin.commit, f"kernels/{self.operator}/{self.kernel}") if origin.commit else None
            elif origin.machine_code == _digest(self.folder(results)):
                reason = None
            else:
                reason = f"the machine code of {built} in {results.name} is not that which was measured"
            if reason:
                return reason
        return None

    @property
    def by_name(self) -> bool:
        """Whether a record of the case lacks the digest of its machine code."""
        return any(origin.machine_code is None for origin in self.origins)

    def folder(self, results: Path) -> Path:
        return results / "compile" / self.operator / self.kernel / self.target / self.variant["id"]

    def case(self, results: Path) -> Case:
        folder = str(self.folder(results))
        return Case("predict", self.operator, self.kernel, self.target, self.variant, self.parameters, folder)


def recorded(sets: Path) -> list[Recorded]:
    """Return timed cases of CuTe DSL and cuTile kernels in the recorded sets.

    Both GPUs' times of a case come together. A case without the SM clock of its samples is left out.
    """
    result: dict[tuple[str, ...], tuple[dict[str, Any], list[Measured]]] = {}
    origins: dict[tuple[str, ...], set[Origin]] = {}
    for folder, device in DEVICES.items():
        for path in sorted((sets / folder).glob("timing-*.jsonl")):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                case = row["case"]
                if row["status"] != "ok" or case["dsl"] not in DSLS:
                    continue
                key = (case["operator"], case["kernel"], case["variant"]["id"], case["workload"])
                entry = result.setdefault(key, (case, []))
                made = row["provenance"]
                origins.setdefault(key, set()).add(Origin(made.get("commit"), made.get("machine_code")))
                for kind, (time, clock) in KINDS.items():
                    if row["metrics"].get(clock):
                        metrics = row["metrics"]
                        calls = metrics.get("calls_per_graph") if kind == "warm" else None
                        single = metrics.get("lone_us") if kind == "cold" else None
                        entry[1].append(Measured(device, kind, metrics[time], metrics[clock], calls, single))
    return [
        Recorded(
            case["operator"],
            case["kernel"],
            case["variant"],
            case["workload"],
            case["parameters"],
            case["target"],
            tuple(measured),
            case["dsl"],
            frozenset(origins[key]),
        )
        for key, (case, measured) in result.items()
    ]


def tuned(sets: Path) -> list[Recorded]:
    """Return the variants that searches timed in the recorded sets.

    Their clock is not recorded: the highest stands for it. The digest is of one build of the search.
    """
    result = []
    for folder, device in DEVICES.items():
        for path in sorted((sets / folder).glob("autotune-*.jsonl")):
            for row in map(json.loads, path.read_text().splitlines()):
                case, made, metrics = row["case"], row["provenance"], row["metrics"]
                names = (case["operator"], case["kernel"])
                for one in metrics["variants"]:
                    if one["status"] == "ok":
                        measured = tuple(Measured(device, kind, one[KINDS[kind][0]], HIGHEST_MHZ) for kind in KINDS)
                        variant = {"id": one["variant"], "params": one["params"]}
                        rest = (case["workload"], case["parameters"], case["target"], measured, case["dsl"])
                        origin = frozenset({Origin(made.get("commit"), made.get("machine_code"))})
                        result.append(Recorded(*names, variant, *rest, origin))
    return result


def complete(cases: list[Recorded], results: Path, one_digest: bool) -> list[Recorded]:
    """Return cases of spaces: kernel and workload with several variants, all with a build.

    All builds are the timed ones, by `refused`; with `one_digest`, one is.
    """
    enough = any if one_digest else all
    spaces: dict[tuple[str, ...], list[Recorded]] = {}
    for case in cases:
        spaces.setdefault((case.operator, case.kernel, case.workload), []).append(case)
    return [
        case
        for some in spaces.values()
        if len(some) > 1 and all(one.folder(results).exists() for one in some)
        if enough(one.refused(results) is None for one in some)
        for case in some
    ]


@cache
def _digest(folder: Path) -> str | None:
    return digest_machine_code(folder)


@cache
def changed(commit: str, folder: str) -> str | None:
    """Return a line that names changed Python since a commit, or None.

    None means that all of a folder does the same. Comments, blank lines and documentation do not count. Whether a build
    was made of what the folder holds is not known here. A commit that this checkout does not have, or no checkout, is a
    difference.
    """
    try:
        names = _git("diff", "--name-only", commit, "--", folder).split()
        for name in names:
            path = ROOT / name
            now = path.read_text() if path.exists() else ""
            if name.endswith(".py") and (not now or _meaning(_git("show", f"{commit}:{name}")) != _meaning(now)):
                return f"{name} is not what it was at commit {commit}, where this was measured"
    except (subprocess.CalledProcessError, OSError):
        return f"what {folder} was at commit {commit}, where this was measured, is not known here"
    return None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout


def _meaning(text: str) -> str:
    """Return a module's syntax without its docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
