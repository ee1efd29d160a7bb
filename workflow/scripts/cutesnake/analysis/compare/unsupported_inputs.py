"""Findings about other people's kernels: what became of inputs that they do not promise to take."""

from __future__ import annotations

from cutesnake.analysis.evidence.gather import Evidence, Record, first_line


def beyond(evidence: Evidence) -> list[Record]:
    """An entry per kernel, target and kind of input that was checked though the kernel does not promise it."""
    found: dict[tuple[str, str, str], Record] = {}
    for entry in (*evidence.measured.values(), *evidence.recorded.values()):
        case = entry["case"]
        decision = evidence.decisions.get((case["kernel"], case["target"]))
        if entry["stage"] != "correctness" or decision is None:
            continue
        for check in (entry["metrics"] or {}).get("checks", []):
            if "outside" not in check:
                continue
            key = (case["kernel"], case["target"], check["distribution"])
            kept = found.setdefault(
                key,
                {
                    **{"kernel": case["kernel"], "dsl": case["dsl"], "source": decision["source"]},
                    **{"target": case["target"], "distribution": check["distribution"], "why": check["outside"]},
                    **{"checks": 0, "failed": 0, "reason": None, "places": []},
                },
            )
            place = (entry["device"] or {}).get("name") or entry["backend"]
            kept["places"] = list(dict.fromkeys([*kept["places"], place]))
            kept["checks"] += 1
            kept["failed"] += not check["passed"]
            if not check["passed"] and kept["reason"] is None:
                kept["reason"] = first_line(check["reason"])
    return list(found.values())
