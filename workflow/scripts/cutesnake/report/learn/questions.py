"""Questions about a kernel, and how its anatomy record answers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cutesnake.report.formatting import plural
from cutesnake.stages.anatomy.numbers import of_warps
from cutesnake.stages.anatomy.product_text import MOVED

Function = Mapping[str, Any]  # a device function of an anatomy record
UNKNOWN = "Unknown: "


@dataclass(frozen=True)
class Question:
    """A question, and the function that answers it from an anatomy record."""

    text: str
    answer: Callable[[Mapping[str, Any]], str]


def main(record: Mapping[str, Any]) -> Function:
    """Return the main device function of an anatomy record."""
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
        return "None: the kernel copies without TMA descriptors."
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
    parts = []
    for one in record["grids"]:
        sizes = ", ".join(f"{k} {v}" for k, v in one["parameters"].items() if isinstance(v, int) and v is not True)
        grid = one["grids"].get(main(record)["symbol"])
        parts.append(f"{' x '.join(map(str, grid))} CTAs for {sizes}" if grid else f"no launch for {sizes}")
    return "; ".join(parts) + f", on a GPU with {record['grids'][0]['processors']} SMs."


def _shared(record: Mapping[str, Any]) -> str:
    shared = main(record)["shared"]
    if shared["buffers"] is None:
        size = shared["dynamic_bytes"]
        return f"{UNKNOWN}which buffers share the {size:,} B." if size else "No dynamic shared memory."
    parts = [
        f"{b['name']} {b['bytes']:,} B" + (f" in {b['stages']} stages" if b["stages"] and b["stages"] > 1 else "")
        for b in shared["buffers"]
    ]
    return f"{', '.join(parts)}; {shared['left_bytes']:,} of {shared['limit_bytes']:,} B are free."


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
    return (
        f"{launched}; setmaxnreg gives {'; '.join(shares)}."
        if shares
        else f"{launched}; no role changes its register count."
    )


def _pipelines(record: Mapping[str, Any]) -> str:
    pipelines = main(record)["pipelines"]
    if pipelines is None:
        return _not_seen(record)
    if not pipelines:
        return "None: no ring of full and empty barriers was detected."
    return "; ".join(f"{p['name']}: {plural(p['stages'], 'stage')}" for p in pipelines) + "."


def _barriers(record: Mapping[str, Any]) -> str:
    f = main(record)
    if f["pipelines"] is None:
        return _not_seen(record)
    if not f["pipelines"]:
        return "None: no pipeline with full and empty barriers was detected."
    deepest = max(f["pipelines"], key=lambda p: p["stages"])
    parts = []
    for state in ("full", "empty"):
        b = next(b for b in f["barriers"] if b["offset"] == deepest[f"{state}_offsets"][0])
        kinds = " and ".join(dict.fromkeys(f"{a['kind']} of {a['role']}" for a in b["arrivals"]))
        who = ", ".join(w["role"] for w in b["waits"])
        lines = [line for w in b["waits"] for line in w["lines"]]
        parts.append(f"{state}: {plural(b['count'], 'arrival')} per phase ({kinds}), {who} wait{_at(lines)}")
    return f"{deepest['name']}, {plural(deepest['stages'], 'stage')}; {'; '.join(parts)}."


def _products(record: Mapping[str, Any]) -> str:
    products = main(record)["products"]
    if products is None:
        return _not_seen(record)
    if not products:
        return "None: no matrix product."
    return "; ".join(p["words"].partition("; B's descriptor")[0] for p in products) + "."


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
    parts = [f"{counts[name]} {name.replace('_', ' ').replace('tma', 'TMA')}" for name in names if counts.get(name)]
    return f"Instructions in the code: {', '.join(parts) or 'no copies'}."


def _launch(record: Mapping[str, Any]) -> str:
    f = main(record)
    attributes = f["host"]["attributes"]
    if attributes is None:
        return _not_seen(record)
    on = [name for name, value in attributes.items() if value and value != [1, 1, 1]]
    waits = f["counts"].get("grid_dependency", 0)
    counted = plural(waits, "griddepcontrol instruction")
    return f"Launch attributes: {', '.join(on) or 'none'}; {counted} in the code."


def _pattern(name: str, there: str = "Yes: ", not_there: str = "No: ") -> Callable[[Mapping[str, Any]], str]:
    """Return a function that reports a pattern's state, with a prefix that suits the question."""

    def answer(record: Mapping[str, Any]) -> str:
        pattern = main(record)["patterns"][name]
        text = {True: there, False: not_there, None: "Unknown: "}[pattern["found"]] + pattern["evidence"]
        return f"{text[:1].upper()}{text[1:]}{_at(pattern['lines'])}."

    return answer


QUESTIONS = {
    "descriptors": Question("Which tensors get TMA descriptors, and with which tiles?", _descriptors),
    "grid": Question("How does the grid size follow from the problem?", _grid),
    "shared": Question("How is shared memory used?", _shared),
    "roles": Question("Which warps do what?", _roles),
    "registers": Question("How are registers distributed over roles?", _registers),
    "pipelines": Question(
        "Which pipelines exist, with how many stages, and which roles fill and empty them?", _pipelines
    ),
    "barriers": Question("Which barriers does the deepest pipeline use, and which roles arrive and wait?", _barriers),
    "products": Question("Which matrix instructions does it use, and where are operands and accumulators?", _products),
    "copies": Question("Which instructions move data?", _copies),
    "launch": Question("Which launch attributes does the host set, and what does the kernel wait for?", _launch),
    "persistent": Question("Does a CTA process several tiles, and when does it stop?", _pattern("persistent loop")),
    "softmax": Question("Does it use an online softmax, and in which loop?", _pattern("online softmax")),
    "cluster": Question("What do the CTAs of a cluster exchange?", _pattern("cluster communication", "", "Nothing: ")),
    "epilogue": Question("How does the epilogue store results?", _pattern("epilogue", "", "None was detected: ")),
    "boundary": Question(
        "What happens at the edges of the problem?", _pattern("boundary handling", "", "No special handling: ")
    ),
    "drain": Question("How are the pipelines drained?", _pattern("pipeline drain", "", "Not drained: ")),
}


def answers(record: Mapping[str, Any], names: list[str]) -> list[tuple[str, str]]:
    """Return (question, answer) for each name.

    For a record without functions, the answers say why no code exists.
    """
    if not record["functions"]:
        why = record["reason"] or record["not_watched"]
        return [(QUESTIONS[name].text, f"{UNKNOWN}{why}.") for name in names]
    return [(QUESTIONS[name].text, QUESTIONS[name].answer(record)) for name in names]
