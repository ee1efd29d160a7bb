"""Table of operations: builds that contain each, their code, and executed counts."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cutesnake.analysis.operations.code import Use, ptx_uses, sass_opcodes
from cutesnake.model import record
from cutesnake.model.records.common import Measured
from cutesnake.model.records.compile import Compile
from cutesnake.model.records.correctness import Correctness
from cutesnake.model.records.operations import Operation as OperationRecord
from cutesnake.model.records.operations import Operations, OperationUse
from cutesnake.planning import strict_yaml
from cutesnake.stages.measure.case import provenance

KEYS = {"name", "ptx", "sass", "product"}


class OperationsError(ValueError):
    """One-line error: an unusable list of operations."""


@dataclass(frozen=True)
class Operation:
    """An operation: its name in CuTe DSL and the patterns that match its code."""

    group: str
    name: str
    ptx: re.Pattern[str]
    sass: re.Pattern[str] | None
    product: re.Pattern[str] | None


@dataclass
class Code:
    """A build's record and opcodes, and the counts of its simulated launches."""

    build: Compile
    ptx: list[Use]
    sass: Counter[str]
    opcodes: Counter[str] = field(default_factory=Counter)
    products: Counter[str] = field(default_factory=Counter)
    simulated: bool = False


def read_operations(path: Path | str) -> list[Operation]:
    """Read a file like config/operations.yaml; raise OperationsError with the faulty entry."""
    operations = []
    for group, entries in strict_yaml.read(path).items():
        for entry in entries:
            where = f"{Path(path).name}: {group}: {entry.get('name')}"
            if not {"name", "ptx", "sass"} <= set(entry) <= KEYS:
                raise OperationsError(f"{where}: the keys are {', '.join(entry)}; expected: name, ptx, sass, product")
            try:
                patterns = [re.compile(entry[key]) if entry.get(key) else None for key in ("ptx", "sass", "product")]
            except re.error as error:
                raise OperationsError(f"{where}: not a regular expression: {error}") from None
            if patterns[0] is None:
                raise OperationsError(f"{where}: ptx is empty and would match nothing")
            operations.append(Operation(group, entry["name"], patterns[0], patterns[1], patterns[2]))
    return operations


def read_builds(builds: Iterable[Path | str], checks: Iterable[Path | str]) -> list[Code]:
    """Read every build with PTX, and the executed counts of its correctness records."""
    codes: dict[tuple[str, ...], Code] = {}
    for path in builds:
        build = record.read("compile", path)
        if build.status != "ok":
            continue
        folder = Path(path).parent
        ptx = [use for file in sorted(folder.glob("*.ptx")) for use in ptx_uses(file.read_text(encoding="utf-8"))]
        sass: Counter[str] = Counter()
        for file in sorted(folder.glob("*.sass")):
            sass += sass_opcodes(file.read_text(encoding="utf-8"))
        if ptx:
            codes[build.operator, build.kernel, build.target, build.variant.id] = Code(build, ptx, sass)
    for path in checks:
        _add(record.read("correctness", path), codes)
    return list(codes.values())


def _add(check: Correctness, codes: Mapping[tuple[str, ...], Code]) -> None:
    case = check.case
    code = codes.get((case.operator, case.kernel, case.target, case.variant.id))
    simulated = check.metrics.simulated if check.metrics else None
    if code is None or simulated is None:
        return
    for launch in simulated.launches:
        code.opcodes.update(launch.opcodes or {})
        code.products.update(launch.products or {})
        code.simulated = code.simulated or launch.opcodes is not None


def _row(operation: Operation, code: Code) -> OperationUse | None:
    """Return the build's row, or None without the operation."""
    uses = [use for use in code.ptx if operation.ptx.match(use.opcode)]
    if not uses:
        return None
    counted = None
    if code.simulated:
        pattern, counts = (operation.product, code.products) if operation.product else (operation.ptx, code.opcodes)
        counted = sum(count for name, count in counts.items() if pattern.match(name))
    if operation.product and not counted:
        return None  # the descriptor's contents are known from launches only
    machine = {} if operation.sass is None else {o: n for o, n in code.sass.items() if operation.sass.match(o)}
    return OperationUse(
        operator=code.build.operator,
        kernel=code.build.kernel,
        dsl=code.build.dsl,
        target=code.build.target,
        variant=code.build.variant.id,
        ptx=uses[0].opcode,
        ptx_count=sum(use.count for use in uses),
        sass=next(iter(machine), None),
        sass_count=sum(machine.values()) if machine else None,
        source=next((use.source for use in uses if use.source), None),
        simulated=counted,
    )


def make_table(operations: Iterable[Operation], codes: Iterable[Code]) -> Operations:
    """Return the operations record; builds with the highest executed count come first."""
    codes = list(codes)
    table = []
    for operation in operations:
        rows = [row for code in codes if (row := _row(operation, code)) is not None]
        rows.sort(key=lambda row: (-(row.simulated or 0), -row.ptx_count, row.operator, row.kernel))
        table.append(OperationRecord(operation.group, operation.name, rows))
    made: Measured = msgspec.convert(provenance(), Measured)
    return Operations("ok", None, made, len(codes), table)
