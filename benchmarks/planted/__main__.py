"""Plant the bugs of bugs.yaml in compiled kernels, run the default checks, and write results.json.

    PYTHONPATH=tests python -m benchmarks.planted [KERNEL ...]

A bug is one edit of the PTX that belongs to one line of source. Bugs that results.json has are not run again.
"""

import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from planted import At, Outcome, Place, check

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.json"
REPORTED = 200  # characters of a message that are kept


def planted(text: str, pattern: str, new: str, line: int | str) -> At:
    """Return an edit of a source line's instructions; ValueError if none match."""
    if isinstance(line, str):
        return At(pattern, new, line)
    lines = [source.rpartition(":")[2] for source in At(pattern).groups(text)]
    if str(line) not in lines:
        raise ValueError(f"line {line} has no {pattern}; lines that do: {', '.join(lines)}")
    return At(pattern, new, nth=lines.index(str(line)))


def ignore_known(outcome: Outcome, known: set[str]) -> Outcome:
    """Return an outcome without the findings that the kernel has without a bug."""
    findings = [text for text in outcome.findings if _place(text) not in known]
    reason = outcome.reason if findings or not outcome.findings else None
    return replace(outcome, findings=findings, reason=reason)


def _place(finding: str) -> str:
    """Return the kernel, PTX line and source line of a finding, with its kind."""
    kind = finding.removeprefix("schedule ").split(": ")[1]
    named = re.search(r"\(([^()]+, PTX line \d+[^()]*?)(, CTA \([^()]*\))?(, warp \d+)?\)$", finding)
    return f"{kind} {named[1]}" if named else finding


def result(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Return what is kept of a run: how the bug was found, if it was."""
    kinds = [re.sub(r"^schedule \w+: ", "", text).partition(":")[0] for text in outcome.findings]
    message = outcome.messages[0] if outcome.messages else ""
    return {
        "found": "finding" if outcome.findings else "failure" if outcome.caught else "",
        "kinds": sorted(set(kinds)),
        "distance": outcome.distance() if outcome.findings else None,
        "seconds": round(seconds, 1),
        "message": message if len(message) <= REPORTED else message[: REPORTED - 1] + "…",
    }


def main() -> None:
    """Run the bugs of the named kernels, or of all."""
    listed = yaml.safe_load((FOLDER / "bugs.yaml").read_text())
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, (operator, kernel, target, workloads) in listed["kernels"].items():
        bugs = [(edit, line) for edit, lines in listed["bugs"].get(name, {}).items() for line in lines]
        bugs = [bug for bug in bugs if f"{name}: {bug[0]} at {bug[1]}" not in results]
        if not bugs or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        places = [Place(operator, kernel, target, workload) for workload in workloads]
        intact = [check(place) for place in places]
        known = {_place(text) for outcome in intact for text in outcome.findings if name in listed["faulty"]}
        if failed := [x.reason for outcome in intact if (x := ignore_known(outcome, known)).caught]:
            raise SystemExit(f"{name}: the kernel fails without a bug: {failed[0]}")
        for edit, line in bugs:
            start = time.process_time()
            for place in places:
                text = (place.folder() / "kernel.ptx").read_text()
                outcome = ignore_known(check(place, planted(text, **listed["edits"][edit], line=line)), known)
                if not outcome.edited:
                    raise SystemExit(f"{name}: no line with {line} has an instruction for the edit {edit}")
                if outcome.caught:
                    break
            key = f"{name}: {edit} at {line}"
            results[key] = result(outcome, time.process_time() - start)
            print(key, results[key], flush=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
