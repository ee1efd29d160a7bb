"""Results of kernels on inputs that they do not support."""

from msgspec.structs import replace

from cutesnake.analysis.evidence.gather import Evidence, first_line
from cutesnake.model.records.compare import UnsupportedInput
from cutesnake.model.records.correctness import Correctness
from cutesnake.model.records.measurement import device_name


def unsupported_inputs(evidence: Evidence) -> list[UnsupportedInput]:
    """Return an entry per kernel, target and kind of unsupported input that was checked."""
    entries: dict[tuple[str, str, str], UnsupportedInput] = {}
    for entry in (*evidence.measured.values(), *evidence.recorded.values()):
        case = entry.case
        decision = evidence.decisions.get((case.kernel, case.target))
        if not isinstance(entry, Correctness) or entry.metrics is None or decision is None:
            continue
        for check in entry.metrics.checks:
            if check.unsupported is None:
                continue
            key = (case.kernel, case.target, check.distribution)
            kept = entries.get(key) or UnsupportedInput(
                kernel=case.kernel,
                dsl=case.dsl,
                source=decision.source,
                target=case.target,
                distribution=check.distribution,
                why=check.unsupported,
                checks=0,
                failed=0,
                reason=None,
                places=[],
            )
            entries[key] = replace(
                kept,
                places=list(dict.fromkeys([*kept.places, device_name(entry) or entry.backend])),
                checks=kept.checks + 1,
                failed=kept.failed + (not check.passed),
                reason=first_line(check.reason) if not check.passed and kept.reason is None else kept.reason,
            )
    return list(entries.values())
