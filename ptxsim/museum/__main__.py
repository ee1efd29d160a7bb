"""Entry point of `python -m ptxsim.museum`."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ptxsim.commandline.output import abandon
from ptxsim.core.schedule import DEFAULT as SCHEDULES
from ptxsim.museum import __doc__ as usage
from ptxsim.museum import exhibits
from ptxsim.museum.exhibit import Exhibit


def shown(exhibit: Exhibit) -> str:
    """Return note, diff and findings of both versions under all default schedules."""
    lines = [exhibit.note, *exhibit.upstream, ""]
    lines += [f"{n:3} {line}" for n, line in exhibit.lines]
    for faulty in (True, False):
        lines.append("before the fix:" if faulty else "after the fix:")
        messages = [str(f) for schedule, seed in SCHEDULES for f in exhibit.findings(faulty, schedule, seed)]
        lines += [f"  {message}" for message in dict.fromkeys(messages)] or ["  nothing"]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the museum; return an exit status of docs/ptxsim/api.md."""
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    known = exhibits()
    if options.name is not None:
        if options.name not in known:
            print(f"unknown exhibit {options.name!r}; known: {', '.join(known)}", file=sys.stderr)
            return 2
        print(shown(known[options.name]))
        return 0
    records = {}
    for name, exhibit in known.items():
        records[name] = record = exhibit.record()
        verdict = ", ".join(record["kinds"]) or "MISSED"
        print(f"{name}: {verdict}{'; AFTER THE FIX: ' if record['after'] else ''}{'; '.join(record['after'])}")
    if options.json is not None:
        options.json.write_text(json.dumps(records, indent=1) + "\n")
    return int(any(record["after"] for record in records.values()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(abandon())
