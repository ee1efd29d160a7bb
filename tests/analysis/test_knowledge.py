"""Claims of docs/knowledge against the records that they name, and rules over kernels."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from anatomy_records import record_of
from builds import FOLDER as FOLDER_OF_BUILDS
from builds import UPSTREAM, simulate
from cutesnake.analysis.knowledge import devlog
from cutesnake.analysis.knowledge.entries import FOLDER, INDEX, Entry, index, read_entries
from cutesnake.analysis.knowledge.evidence import BUILT, NoEvidenceError, at_path, evidence_value, holds, meets
from cutesnake.analysis.knowledge.verdicts import NAMES, verdicts
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT
from cutesnake.model.record import convert, write_text
from cutesnake.model.records.anatomy import Anatomy
from cutesnake.planning.staleness import digest_data, digest_files
from cutesnake.stages.fetch import fetch, fetched
from cutesnake.stages.inspect.cubin import read_cubin
from kernels.upstream.examples import FOLDER as EXAMPLES
from kernels.upstream.examples import SOURCE
from partial_records import filled

ENTRIES = read_entries()
CLAIMS = [(entry.name, claim) for entry in ENTRIES for claim in entry.evidence]


def test_there_are_entries_of_every_kind_with_a_claim_each() -> None:
    assert len(ENTRIES) >= 50
    assert {entry.kind.split("/")[0] for entry in ENTRIES} == {"optimizations", "anti-patterns", "languages"}
    assert {entry.kind for entry in ENTRIES} >= {"languages/cute-dsl/optimizations", "languages/cutile/anti-patterns"}


CITED = re.compile(r"^- `([^`]+)`(?:, lines? (\d+)(?:-(\d+))?)?: (?:.*)`([^`]+)`$", re.MULTILINE)
EXAMPLE = re.compile(r"^## Implementation\n\[[^]]+\]\(([^)]+)\)[^\n]*\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMPILED_PROGRAM = "docs/knowledge/languages/cutile/tiles_of_mla_decode.py"


def cited(own: bool) -> list[tuple[str, ...]]:
    """Return what entries cite, from this repository or from NVIDIA's examples: entry, file, lines, text."""
    rows = [(e.name, *match.groups("")) for e in ENTRIES for match in CITED.finditer(section(e, "Source"))]
    return [one for one in rows if (ROOT / one[1]).exists() == own]


def section(entry: Entry, heading: str) -> str:
    return entry.text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name, file, first, last, text", cited(own=True))
def test_a_cited_file_has_the_cited_text(name, file, first, last, text) -> None:
    paths = [ROOT / file] if (ROOT / file).is_file() else sorted((ROOT / file).glob("*.py"))
    assert any(text in path.read_text() for path in paths)


@functools.cache
def wheel() -> Path:
    """Return the folder of NVIDIA's examples' wheel, fetched if it is missing."""
    fetch(SOURCE, ROOT / "results/fetch" / SOURCE, UPSTREAM)
    return fetched(SOURCE, ROOT / "results/fetch")


@pytest.mark.slow
@pytest.mark.parametrize("name, file, first, last, text", cited(own=False))
def test_cited_lines_of_nvidias_examples_have_the_cited_text(name, file, first, last, text) -> None:
    lines = (wheel() / EXAMPLES / file).read_text().splitlines()
    assert any(text in line for line in lines[int(first) - 1 : int(last or first)])


def example(one: Entry) -> tuple[Path, list[str]]:
    """Return the example of an entry, and the lines of it that the entry shows."""
    match = EXAMPLE.search(one.text)
    assert match, f"{one.name}: no example"
    return (FOLDER / one.name).parent.joinpath(match[1]).resolve(), match[2].splitlines()


@pytest.mark.parametrize("one", ENTRIES, ids=lambda one: one.name)
def test_the_shown_lines_are_in_the_example_in_that_order(one) -> None:
    path, shown = example(one)
    lines = iter([line.strip().rstrip(",") for line in path.read_text().splitlines()])
    assert all(line.strip().rstrip(",") in lines for line in shown)
    name = path.relative_to(ROOT).as_posix()
    runs = name.startswith(("ptxsim/museum/bugs/", "kernels/")) or name == COMPILED_PROGRAM or path in RUN
    assert runs, f"{name}: no test runs it"


RUN = [path for path in sorted(FOLDER.rglob("*.py")) if path != ROOT / COMPILED_PROGRAM]


def run_examples(paths: list[Path], folder: Path) -> dict[str, str]:
    """Run examples in ptxsim; return the failure of each file, or an empty text."""
    report = folder / "junit.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "ptxsim.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "-o",
        "junit_family=xunit1",
    ]
    subprocess.run(
        [*command, f"--junitxml={report}", f"--rootdir={folder}", *map(str, paths)],
        cwd=folder,
        env={**os.environ, "PTXSIM": "1", "CUTE_DSL_ARCH": "sm_100a", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=900,
    )
    results: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failure = "".join("".join(part.itertext()) for part in case if part.tag in ("failure", "error"))
        name = Path(case.attrib["file"]).stem
        results[name] = results.get(name, "") + failure
    return results


BROKEN = {  # example: a line that it needs, what replaces it, and what ptxsim or the example then reports
    "softmax_exchange_race": ("tile % 2]", "0]", "nothing orders that after"),
    "tensor_memory_freed_early": ("    cute.arch.sync_threads()  # without it", "    # ", "tcgen05.dealloc"),
    "early_launch": ("    cute.arch.griddepcontrol_wait()\n", "", "race"),
    "full_and_empty_in_pairs": ("            full.release()\n", "", "AssertionError"),  # after a deadlock
    "empty_barriers_count_the_cluster": ("Thread, WARPS * CTAS)", "Thread, WARPS)", "AssertionError"),
    "epilogue_through_shared_memory": ("    cute.arch.fence_view_async_shared()", "    #", "race"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, str]:
    """Run all examples, and the broken ones as broken_NAME."""
    folder, paths = tmp_path_factory.mktemp("examples"), {path.stem: path for path in RUN}
    for name, (needed, instead, _) in BROKEN.items():
        text = paths[name].read_text()
        assert needed in text
        (folder / f"broken_{name}.py").write_text(text.replace(needed, instead))
    return run_examples([*RUN, *sorted(folder.glob("*.py"))], folder)


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_an_example_runs_and_ptxsim_reports_nothing(results, path) -> None:
    assert results[path.stem] == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_an_example_without_the_line_that_it_explains_has_a_finding(results, name) -> None:
    assert BROKEN[name][2] in results[f"broken_{name}"]


def test_the_index_is_made_from_the_entries() -> None:
    assert (FOLDER / INDEX).read_text() == index(ENTRIES), "run python -m cutesnake.analysis.knowledge.write_index"


@pytest.mark.parametrize(
    ("name", "claim"), [(n, c) for n, c in CLAIMS if c["kind"] not in BUILT], ids=lambda x: str(x)[:50]
)
def test_a_record_still_says_what_an_entry_claims(name, claim) -> None:
    assert holds(claim, result := evidence_value(claim)), (name, claim["text"], result)


@functools.cache
def anatomy(build: str) -> Anatomy:
    return convert("anatomy", record_of(build), build)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "claim"), [(n, c) for n, c in CLAIMS if c["kind"] == "anatomy"], ids=lambda x: str(x)[:50]
)
def test_a_builds_anatomy_still_says_what_an_entry_claims(name, claim) -> None:
    assert holds(claim, result := evidence_value(claim, anatomy)), (name, claim["text"], result)


def findings(claim: Mapping[str, Any]) -> list[str]:
    """Return the figures of a claim's simulated check under one schedule."""
    operator, kernel, target, name = claim["build"].split("/")
    work = load_operator(operator).Workload(**claim["where"])
    variants = load_kernel(operator, kernel).variants(work, target)
    variant = next(variant for variant in variants if variant.id == name)
    done = simulate(operator, kernel, target, variant, claim["where"], processors=claim.get("processors"))
    return [finding for check in done["metrics"]["checks"] for finding in check["findings"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "claim"), [(n, c) for n, c in CLAIMS if c["kind"] == "simulated"], ids=lambda x: str(x)[:50]
)
def test_a_simulated_check_still_finds_what_an_entry_claims(name, claim) -> None:
    result = findings(claim)
    assert holds(claim, evidence_value(claim, findings=lambda _: result)), (name, claim["text"], result)
    assert not holds(claim, evidence_value(claim, findings=lambda _: []))


COUNTED = ("wgmma.mma_async", "mma.sync", "cp.async.bulk.tensor")  # prefixes of PTX opcodes


def compile_program(program: Path, function: str, target: str) -> dict[str, Any]:
    """Compile the cuTile device function that `function` of a program returns, and read its figures."""
    from cutesnake.stages.compile.cutile import build

    spec = importlib.util.spec_from_file_location(program.stem, program)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with tempfile.TemporaryDirectory() as folder:
        made = getattr(module, function)()
        build([made], target, Path(folder))
        cubin = read_cubin(Path(folder, f"{made.stem}.cubin"))
    (kernel,), lines = cubin.kernels, (cubin.ptx or "").split("\n")
    return {
        "threads": kernel.required_threads,
        "stack_bytes": kernel.stack_bytes,
        "registers_per_thread": kernel.registers_per_thread,
        "static_shared_bytes": kernel.static_shared_bytes,
        "opcodes": {name: sum(line.lstrip().startswith(name) for line in lines) for name in COUNTED},
    }


@functools.cache
def compiled(file: str, function: str, target: str) -> dict[str, Any]:
    """Return figures of an entry's program, cached by program, kernel and compiler."""
    versions = [importlib.metadata.version(name) for name in ("cuda-tile", "nvidia-cuda-tileiras")]
    kernel = digest_files([ROOT / file, *(ROOT / "kernels/mla_decode/cutile").glob("*.py")])
    kept = FOLDER_OF_BUILDS / f"compiled-{digest_data([kernel, function, target, versions])}.json"
    if not kept.exists():
        result = compile_program(ROOT / file, function, target)
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, json.dumps(result))
    return json.loads(kept.read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "claim"), [(n, c) for n, c in CLAIMS if c["kind"] == "compiled"], ids=lambda x: str(x)[:50]
)
def test_a_compiler_still_does_what_an_entry_claims(name, claim) -> None:
    result = evidence_value(claim, compiled=lambda c: compiled(c["file"], c["function"], c["target"]))
    assert holds(claim, result), (name, claim["text"], result)


BOUNDS = {"equals", "contains", "at_least", "at_most", "says"}


def test_every_claim_can_fail() -> None:
    assert all(BOUNDS & set(claim) for _, claim in CLAIMS)
    assert all(BOUNDS & set(c) for e in ENTRIES if e.rule for c in (*e.rule["when"], *e.rule["then"]))


def test_a_claim_fails_when_its_record_says_otherwise(tmp_path) -> None:
    claim = next(c for _, c in CLAIMS if c["kind"] == "ratio" and "at_least" in c)
    folder = tmp_path / "recorded" / claim["set"]
    folder.mkdir(parents=True)
    for path in (ROOT / "recorded" / claim["set"]).glob(f"{claim['stage']}-{claim['operator']}-*.jsonl"):
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        for one in entries:
            if one["case"]["kernel"] == claim["slow"]["kernel"]:
                one["metrics"][claim["metric"]] /= 2
        (folder / path.name).write_text("\n".join(map(json.dumps, entries)))
    assert holds(claim, evidence_value(claim)) and not holds(claim, evidence_value(claim, root=tmp_path))
    for path in folder.iterdir():
        path.write_text("")
    with pytest.raises(NoEvidenceError, match="no timing record of"):
        evidence_value(claim, root=tmp_path)


@pytest.mark.parametrize("place", ["passed", "distribution"])
def test_a_count_falls_when_a_record_says_otherwise(tmp_path, place) -> None:
    claim = next(c for _, c in CLAIMS if c["kind"] == "count" and c.get("at_least") == 35)
    file = f"recorded/{claim['set']}/{claim['stage']}-{claim['operator']}-{claim['of']['kernel']}.jsonl"
    entries = [json.loads(line) for line in (ROOT / file).read_text().splitlines()]
    for check in (check for entry in entries for check in entry["metrics"]["checks"]):
        check[place] = {"passed": False, "distribution": "randn"}[place]
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("\n".join(map(json.dumps, entries)))
    assert holds(claim, evidence_value(claim)) and not holds(claim, evidence_value(claim, root=tmp_path))
    (tmp_path / file).write_text("")
    with pytest.raises(NoEvidenceError, match="no correctness record of"):
        evidence_value(claim, root=tmp_path)


def entry(**rule: Any) -> Entry:
    return Entry("optimizations/mine", "Mine", [], rule, "")


def record(**main: Any) -> Anatomy:
    return filled(Anatomy, {"functions": [main], "dsl": "cute", "target": "sm_90a"})


def test_a_kernel_confirms_refines_or_contradicts_an_entry_or_says_nothing() -> None:
    path = "pipelines/0/stages"
    rule = entry(
        when=[{"path": "counts/tma_load", "at_least": 1}],
        then=[{"path": path, "at_least": 2}],
        figure={"path": path, "range": [2, 6]},
    )

    def verdict(stages: int | None, loads: int = 2) -> Any:
        main = record(counts={"tma_load": loads}, pipelines=[{"stages": stages}])
        return next(iter(verdicts(main, [rule])), None)

    assert [verdict(stages).word for stages in (4, 9, 1)] == ["confirms", "refines", "contradicts"]
    assert verdict(1).why == "stages of the first pipeline: 1; expected: at least 2"
    assert verdict(9).why.endswith("out of the range so far, 2 to 6")
    assert verdict(1, loads=0) is None and verdict(None) is None


def test_each_value_of_a_rule_has_words() -> None:
    rules = [one.rule for one in read_entries() if one.rule]
    assert {bounds["path"] for rule in rules for bounds in rule["then"]} <= set(NAMES)
    assert {rule["figure"]["path"] for rule in rules if "figure" in rule} <= set(NAMES)


def test_paths_reach_into_lists_and_bounds_are_told_apart() -> None:
    data = {"a": [{"b": 1}, {"b": 2}]}
    assert at_path(data, "a/*/b") == [1, 2] and at_path(data, "a/#") == 2 and at_path(data, "a/5/b") is None
    assert meets({"contains": "TMA"}, "by TMA") and not meets({"at_least": 3}, 2) and not meets({"at_most": 3}, None)


def test_a_development_log_says_what_was_tried_where_a_decision_record_does(tmp_path, monkeypatch) -> None:
    record_of_versions = (
        "# A\n\n## Versions\n\n| version | change | effect |\n|---|--:|---|\n| v1 | [one](x.md) role | 2 → 1 |\n"
        "\n## Dropped ideas\n\n| idea | effect |\n|---|---|\n| two roles | slower |\n\n## Other\n\n| a | b |\n"
    )
    write_text(tmp_path / "docs/decisions/mla_mine.md", record_of_versions)
    monkeypatch.setattr(devlog, "ROOT", tmp_path)
    tried = devlog.log_of("mla_decode", "mine").tried
    assert tried == [("kept", "v1: one role", "2 → 1"), ("dropped", "two roles", "slower")]
    assert devlog.log_of("gemm", "mine").tried == []
