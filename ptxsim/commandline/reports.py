"""Reports for other programs: SARIF 2.1.0, JUnit XML, and GitHub's annotations."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from .elements import Misuse
from .output import Outcome, finding_lines

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
WRONG = "wrong-output"  # the rule of a comparison (--expect) that failed
RULES = {
    "barrier": "Misuse of an mbarrier, a named barrier or a cluster barrier",
    "deadlock": "Threads that wait for ever",
    "exit": "A CTA that exits while its memory is still in use",
    "global": "Unordered accesses of global memory",
    "inactive": "A shuffle from or by a lane that takes no part",
    "leak": "Tensor memory that is not freed",
    "misaligned": "An access at an address that is not a multiple of its size",
    "out-of-bounds": "An access outside every allocation",
    "outside": "A TMA load outside its tensor",
    "race": "Unordered accesses of shared or tensor memory",
    "repeated": "An asynchronous operation that several lanes request",
    "sass": "An arrival that ptxas moved before the end of a tcgen05.ld",
    "tensor-lanes": "A tcgen05.ld or st of lanes that its warp cannot reach",
    "tensor-fence": "Tensor memory work without tcgen05.fence",
    "unfenced": "A wgmma without wgmma.fence",
    "uninitialised": "A read of memory that nothing wrote",
    "unwaited": "A use of accumulators before their wait",
    "unwritten": "A read of a register that nothing wrote",
    "wrong": "Outputs that a judge rejects",
    WRONG: "A tensor that differs from the expected values",
}
_PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d+)(?::\d+)?$")


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding or failed comparison: rule, message, file, line and run."""

    rule: str
    message: str
    path: str | None
    line: int | None
    schedule: str
    kernel: str = ""
    details: str = ""


def problems(outcomes: Sequence[Outcome], ptx: Path) -> list[Problem]:
    """Return each finding and failed comparison once, with the first schedule that met it.

    A finding without a source line is placed at its line in the PTX file.
    """
    seen: set[tuple[Any, ...]] = set()
    out = []
    for outcome in outcomes:
        schedule = f"{outcome.result.schedule}, seed {outcome.result.seed}"
        for f in outcome.result.findings:
            place = _PLACE.match(f.source or "")
            path, line = (place["path"], int(place["line"])) if place else (str(ptx), f.ptx_line)
            details = "\n".join(finding_lines(f))
            if (f.kind, f.kernel, f.ptx_line) not in seen:
                out.append(Problem(f.kind, f.message, path, line, schedule, f.kernel, details))
            seen.add((f.kind, f.kernel, f.ptx_line))
        for difference in outcome.differences:
            if difference.wrong and (WRONG, difference.tensor) not in seen:
                out.append(Problem(WRONG, str(difference), None, None, schedule, details=str(difference)))
                seen.add((WRONG, difference.tensor))
    return out


def sarif(problems: Sequence[Problem], status: int, error: str | None = None) -> dict[str, Any]:
    """Return a run's SARIF log; `error`: why nothing could be run."""
    used = sorted({x.rule for x in problems})
    notes = [{"level": "error", "message": {"text": error}}] if error else []
    run = {
        "tool": {
            "driver": {
                "name": "ptxsim",
                "version": installed_version(),
                "rules": [{"id": rule, "shortDescription": {"text": RULES.get(rule, rule)}} for rule in used],
            }
        },
        "invocations": [
            {"executionSuccessful": error is None, "exitCode": status, "toolExecutionNotifications": notes}
        ],
        "results": [_result(x, used) for x in problems],
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(x: Problem, rules: list[str]) -> dict[str, Any]:
    properties = {"schedule": x.schedule, "kernel": x.kernel}
    result: dict[str, Any] = {
        "ruleId": x.rule,
        "ruleIndex": rules.index(x.rule),
        "level": "error",
        "message": {"text": x.message},
        "properties": properties,
    }
    if x.path is not None:
        location: dict[str, Any] = {"artifactLocation": {"uri": _uri(x.path)}}
        if x.line:
            location["region"] = {"startLine": x.line}
        result["locations"] = [{"physicalLocation": location}]
    return result


def _near(path: str) -> str:
    """Return a path relative to the current folder if it lies below."""
    near = os.path.relpath(path) if os.path.isabs(path) else os.path.normpath(path)
    return path if near.startswith("..") else near


def _uri(path: str) -> str:
    near = _near(path)
    if os.path.isabs(near):
        return Path(near).as_uri()
    from urllib.parse import quote

    return quote(Path(near).as_posix())


def installed_version() -> str:
    """Return this package's version; 0 in a checkout that is not installed."""
    try:
        return version("ptxsim")
    except PackageNotFoundError:
        return "0"


def junit(name: str, outcomes: Sequence[Outcome], error: str | None = None) -> str:
    """Return JUnit XML, a test case per run of kernel `name`, or `error`."""
    suite = ET.Element("testsuite", name="ptxsim")
    failed = 0
    for outcome in outcomes:
        result = outcome.result
        case = ET.SubElement(suite, "testcase", classname=f"ptxsim.{name}", name=f"{result.schedule}-{result.seed}")
        case.set("time", f"{result.seconds:.3f}")
        if not outcome.failed:
            continue
        failed += 1
        wrong = [str(x) for x in outcome.differences if x.wrong]
        heads = [f"{x.kind}: {x.message}" for x in result.findings] + wrong
        text = "\n".join([*("\n".join(finding_lines(x)) for x in result.findings), *wrong])
        failure = ET.SubElement(case, "failure", message=_clean(heads[0]))
        failure.set("type", result.findings[0].kind if result.findings else WRONG)
        failure.text = _clean(text)
    if error:
        case = ET.SubElement(suite, "testcase", classname=f"ptxsim.{name}", name="run", time="0")
        ET.SubElement(case, "error", message=_clean(error), type="error")
    suite.set("tests", str(len(outcomes) + bool(error)))
    suite.set("failures", str(failed))
    suite.set("errors", str(int(bool(error))))
    suite.set("time", f"{sum(x.result.seconds for x in outcomes):.3f}")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _clean(text: str) -> str:
    """Return text without the control characters that XML does not take."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def github_commands(problems: Sequence[Problem], error: str | None = None) -> Iterator[str]:
    """Yield a workflow command of GitHub Actions per problem: an annotation at its line."""
    for x in problems:
        place = {} if x.path is None else {"file": _near(x.path)} | ({"line": str(x.line)} if x.line else {})
        fields = ",".join(
            f"{key}={_escaped(value, ',:')}" for key, value in {**place, "title": f"ptxsim {x.rule}"}.items()
        )
        yield f"::error {fields}::{_escaped(x.details or x.message)}"
    if error:
        yield f"::error title=ptxsim::{_escaped(error)}"


def _escaped(text: str, more: str = "") -> str:
    """Escape what a workflow command reserves."""
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def write(path: Path, content: str | dict[str, Any], option: str) -> None:
    """Write a report atomically. Raises Misuse naming the option."""
    text = content if isinstance(content, str) else json.dumps(content, indent=1, default=str) + "\n"
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(text)
        partial.replace(path)
    except OSError as error:
        raise Misuse(f"{option} {path}: {error.strerror}") from None
