"""Planted bugs.

A kernel of the catalogue whose PTX is edited, run as the stage runs it, and what is found.

An edit takes the PTX apart by instruction, so that it reaches one opcode at one line of the source.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ptxsim
from builds import build
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.contract import Variant, Workload
from cutesnake.stages.measure.case import Case
from cutesnake.stages.measure.correctness import check_case
from cutesnake.stages.simulate import simulation
from cutesnake.stages.simulate.capture import Catcher

Edit = Callable[[str], str]
SCHEDULES = ("random", "tma_late")  # two of the short list's


@dataclass(frozen=True)
class Place:
    """A kernel and the workload that it runs.

    Without a variant or the name of one, the first one.
    """

    operator: str
    kernel: str
    target: str
    values: dict[str, Any]
    variant: str | Variant | None = None
    distribution: str = "randn"

    @property
    def workload(self) -> Workload:
        return load_operator(self.operator).Workload(**self.values)

    def chosen(self) -> Variant:
        if isinstance(self.variant, Variant):
            return self.variant
        result = load_kernel(self.operator, self.kernel).variants(self.workload, self.target)
        return next(v for v in result if self.variant in (None, v.id))

    def folder(self) -> Path:
        return build(self.operator, self.kernel, self.target, self.chosen())


@dataclass
class Outcome:
    """What is found, and why a case failed, where it did."""

    findings: list[str]
    reason: str | None
    backend: simulation.SimulatorBackend
    edited: set[tuple[str, int]] = field(default_factory=set)  # file names and lines that the edit touched

    @property
    def caught(self) -> bool:
        return self.reason is not None

    @property
    def messages(self) -> list[str]:
        """All sentences."""
        return self.findings or ([self.reason] if self.reason else [])

    def distance(self) -> int | None:
        """Return the distance in source lines between the edit and the nearest finding."""
        named = [(m[1], int(m[2])) for text in self.messages for m in re.finditer(r"([\w.]+\.py):(\d+)", text)]
        return min((abs(n - line) for name, n in named for file, line in self.edited if name == file), default=None)


def check(
    place: Place,
    edit: Edit | None = None,
    schedules: Sequence[str] = SCHEDULES,
    checks: Sequence[str] = (),
    search_runs: int = 8,
    seed: int = 0,
    modules: dict[str, ptxsim.Module] | None = None,
) -> Outcome:
    """Run a case with the edited PTX on four SMs, with extra `checks`.

    `modules` keeps the edited PTX for further calls with the same edit.
    """
    folder, variant = place.folder(), place.chosen()
    modules = {} if modules is None else modules
    edited: set[tuple[str, int]] = set()

    class Planter(Catcher):
        def module(self, stem: str) -> ptxsim.Module:
            if stem not in modules:
                text = (folder / f"{stem}.ptx").read_text()
                modules[stem] = ptxsim.Module.from_text(edit(text) if edit else text)
                edited.update(getattr(edit, "places", ()))
            return modules[stem]

    class Planted(simulation.SimulatorBackend):
        catcher = Planter

        def _run(self, launches: list[Any], order: dict[str, Any], more: Sequence[str] = ()) -> None:
            super()._run(launches, order, (*more, *checks))

    case = Case(
        stage="correctness",
        operator=place.operator,
        kernel=place.kernel,
        target=place.target,
        variant={"id": variant.id, "params": dict(variant.params)},
        parameters=asdict(place.workload),
        build=str(folder),
        settings={
            **{"seeds": [seed], "distributions": [place.distribution], "schedules": list(schedules), "processors": 4},
            "search_runs": search_runs,
        },
    )
    backend = Planted(case)
    metrics, reason = check_case(case, backend)
    findings = [finding for check in metrics["checks"] for finding in check.get("findings", [])]
    return Outcome(findings, reason, backend, edited)


@dataclass
class At:
    """Edit the instructions that match `pattern` at a source line with `code`.

    With `nth` only the nth such line, in the order of the PTX. `places` are then the lines that it touched.
    """

    pattern: str
    new: str = ""
    code: str = ""
    nth: int | None = None
    places: set[tuple[str, int]] = field(default_factory=set)

    def __call__(self, text: str) -> str:
        groups = self.groups(text)
        chosen = list(groups) if self.nth is None else list(groups)[self.nth : self.nth + 1]
        lines = text.split("\n")
        for source in chosen:
            for n in groups[source]:
                lines[n - 1] = re.sub(self.pattern, self.new, lines[n - 1])
            file, _, line = source.rpartition(":")
            self.places.add((Path(file).name, int(line)))
        return "\n".join(lines)

    def groups(self, text: str) -> dict[str, list[int]]:
        """Source line → the PTX lines that are meant."""
        lines, result = text.split("\n"), {}
        for kernel in ptxsim.Module.from_text(text).kernels.values():
            for ins in kernel.instructions:
                if re.search(self.pattern, lines[ins.line - 1]) and self.code in source_text(ins.source):
                    result.setdefault(ins.source or f":{ins.line}", []).append(ins.line)
        return {source: sorted(set(numbers)) for source, numbers in result.items()}


def source_text(source: str | None) -> str:
    file, _, line = (source or "").rpartition(":")
    return linecache.getline(file, int(line)).strip() if file else ""
