"""Questions to write down before reading a kernel, and how their answers follow from its anatomy record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cutesnake.report.formatting import plural
from cutesnake.stages.anatomy.numbers import of_warps
from cutesnake.stages.anatomy.product_text import MOVED

Function = Mapping[str, Any]  # of an anatomy record
UNKNOWN = "Unknown: "


@dataclass(frozen=True)
class Question:
    """A question and the function that answers it from an anatomy record with at least one function."""

    text: str
    answer: Callable[[Mapping[str, Any]], str]


def main(record: Mapping[str, Any]) -> Function:
    return record["functions"][0]


def _not_seen(record: Mapping[str, Any]) -> str:
    return f"{UNKNOWN}{record['not_watched'] or 'the main function did not run'}."


def _at(lines: list[str]) -> str:
    short = list(dict.fromkeys(line.rpartition("/")[2] for line in lines))[:4]
    return f" ({', '.join(short)})" if short else ""


def _descriptors(record: Mapping[str, Any]) -> str:
    f = main(record)
    if f["descriptors"] is None:
        return _not_seen(record)
    if not f["descriptors"]:
        return "None: it copies without TMA descriptors."
    parts = []
    for d in f["descriptors"]:
        box = " x ".join(map(str, d["box"]))
        uses = ", ".join(f"{MOVED[use['way']]} by {use['role']}" for use in d["uses"]) or "not used in this run"
        size = f"{d['box_bytes']:,} B, swizzle {d['swizzle']}"
        parts.append(f"{d['tensor']}: boxes of {box} {d['element']} ({size}), {uses}")
    return "; ".join(parts) + "."


def _grid(record: Mapping[str, Any]) -> str:
    if not record["grids"]:
        return _not_seen(record)
    told = []
    for one in record["grids"]:
        sizes = ", ".join(f"{k} {v}" for k, v in one["parameters"].items() if isinstance(v, int) and v is not True)
        grid = one["grids"].get(main(record)["symbol"])
        told.append(f"{' x '.join(map(str, grid))} CTAs for {sizes}" if grid else f"no launch of it for {sizes}")
    return "; ".join(told) + f", on a card of {record['grids'][0]['processors']} multiprocessors."


def _shared(record: Mapping[str, Any]) -> str:
    shared = main(record)["shared"]
    if shared["buffers"] is None:
        size = shared["dynamic_bytes"]
        return f"{UNKNOWN}which buffers share the {size:,} B." if size else "It has no dynamic shared memory."
    parts = [
        f"{b['name']} {b['bytes']:,} B" + (f" in {b['stages']} stages" if b["stages"] and b["stages"] > 1 else "")
        for b in shared["buffers"]
    ]
    return f"{', '.join(parts)}; {shared['left_bytes']:,} B of {shared['limit_bytes']:,} are left."


def _roles(record: Mapping[str, Any]) -> str:
    roles = main(record)["roles"]
    if roles is None:
        return _not_seen(record)
    return "; ".join(map(_role, roles)) + "."


def _role(role: Mapping[str, Any]) -> str:
    some = ", ".join(f"{task} by {of_warps(warps)} only" for task, warps in role["some"].items())
    return f"{role['name']}: {of_warps(role['warps'])}{f' ({some})' if some else ''}"


def _registers(record: Mapping[str, Any]) -> str:
    f = main(record)
    shares = [f"{r['name']} {', '.join(map(str, r['registers']))}" for r in f["roles"] or [] if r["registers"]]
    launched = f"{f['registers']['per_thread']} registers per thread at launch"
    return f"{launched}; setmaxnreg gives {'; '.join(shares)}." if shares else f"{launched}; no role changes its share."


def _pipelines(record: Mapping[str, Any]) -> str:
    found = main(record)["pipelines"]
    if found is None:
        return _not_seen(record)
    if not found:
        return "No ring of full and empty barriers was seen."
    return "; ".join(f"{p['name']}: {plural(p['stages'], 'stage')}" for p in found) + "."


def _barriers(record: Mapping[str, Any]) -> str:
    f = main(record)
    if f["pipelines"] is None:
        return _not_seen(record)
    if not f["pipelines"]:
        return "None: no pipeline with full and empty barriers was seen."
    deepest = max(f["pipelines"], key=lambda p: p["stages"])
    told = []
    for state in ("full", "empty"):
        b = next(b for b in f["barriers"] if b["offset"] == deepest[f"{state}_offsets"][0])
        kinds = " and ".join(dict.fromkeys(f"{a['kind']} of {a['role']}" for a in b["arrivals"]))
        who = ", ".join(w["role"] for w in b["waits"])
        lines = [line for w in b["waits"] for line in w["lines"]]
        told.append(f"{state}: {plural(b['count'], 'arrival')} a phase ({kinds}), waited for by {who}{_at(lines)}")
    return f"{deepest['name']}, {plural(deepest['stages'], 'stage')}; {'; '.join(told)}."


def _products(record: Mapping[str, Any]) -> str:
    found = main(record)["products"]
    if found is None:
        return _not_seen(record)
    if not found:
        return "None: it has no matrix product."
    return "; ".join(p["words"].partition("; B's descriptor")[0] for p in found) + "."


def _copies(record: Mapping[str, Any]) -> str:
    counts = main(record)["counts"]
    names = (
        "global_load",
        "global_store",
        "cp_async",
        "tma_load",
        "bulk_load",
        "tma_store",
        "shared_load",
        "shared_store",
    )
    told = [f"{counts[name]} {name.replace('_', ' ').replace('tma', 'TMA')}" for name in names if counts.get(name)]
    return f"Its code has {', '.join(told) or 'no copies'} instructions."


def _launch(record: Mapping[str, Any]) -> str:
    f = main(record)
    attributes = f["host"]["attributes"]
    if attributes is None:
        return _not_seen(record)
    on = [name for name, value in attributes.items() if value and value != [1, 1, 1]]
    waits = f["counts"].get("grid_dependency", 0)
    said = plural(waits, "griddepcontrol instruction")
    return f"Attributes set at launch: {', '.join(on) or 'none'}; {said} in its code."


def _pattern(name: str, there: str = "Yes: ", not_there: str = "No: ") -> Callable[[Mapping[str, Any]], str]:
    """What was found out about a pattern, after a word that suits the question."""

    def answer(record: Mapping[str, Any]) -> str:
        found = main(record)["patterns"][name]
        told = {True: there, False: not_there, None: "Unknown: "}[found["found"]] + found["evidence"]
        return f"{told[:1].upper()}{told[1:]}{_at(found['lines'])}."

    return answer


QUESTIONS = {
    "descriptors": Question("Which tensors get TMA descriptors, and with which tiles?", _descriptors),
    "grid": Question("How does the grid follow from the problem?", _grid),
    "shared": Question("How is shared memory spent?", _shared),
    "roles": Question("Which warps do what?", _roles),
    "registers": Question("How are registers shared out?", _registers),
    "pipelines": Question("Which pipelines are there, how deep, who fills them and who empties them?", _pipelines),
    "barriers": Question("What barriers does the deepest pipeline use, and who arrives and waits?", _barriers),
    "products": Question("Which matrix instructions does it use, and where do operands and sums live?", _products),
    "copies": Question("By which instructions does it move data?", _copies),
    "launch": Question("Which launch attributes does the host set, and what does the kernel wait for?", _launch),
    "persistent": Question("Does a CTA walk over several tiles, and when does it stop?", _pattern("persistent loop")),
    "softmax": Question("Is the softmax computed on the way, in which loop?", _pattern("online softmax")),
    "cluster": Question("What do the CTAs of a cluster exchange?", _pattern("cluster communication", "", "Nothing: ")),
    "epilogue": Question("By which way do results leave?", _pattern("epilogue", "", "None was found: ")),
    "boundary": Question(
        "What happens at the edges of the problem?", _pattern("boundary handling", "", "Nothing is done for them: ")
    ),
    "drain": Question(
        "How are the last stages of the pipelines flushed?", _pattern("pipeline drain", "", "They are not: ")
    ),
}


def answers(record: Mapping[str, Any], names: list[str]) -> list[tuple[str, str]]:
    """(question, answer) for each name. A record without functions answers that there is no code."""
    if not record["functions"]:
        why = record["reason"] or record["not_watched"]
        return [(QUESTIONS[name].text, f"{UNKNOWN}{why}.") for name in names]
    return [(QUESTIONS[name].text, QUESTIONS[name].answer(record)) for name in names]
