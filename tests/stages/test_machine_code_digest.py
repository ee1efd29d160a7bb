"""The digest of a build's machine code.

What changes it, what does not, and that records have it.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import test_stage

from benchmarks.prediction import cases
from cpu_backend import small_case
from cutesnake.model import record
from cutesnake.stages.measure import stage
from cutesnake.stages.measure.case import make_record
from cutesnake.stages.measure.machine_code import digest_machine_code

CODE, LINES = ".text.kernel", ".debug_line"


def elf(code: bytes = b"code", lines: bytes = b"lines") -> bytes:
    """Return a 64-bit ELF file with loaded, unloaded and empty sections."""
    names = b"\0" + b"\0".join(name.encode() for name in (CODE, LINES, ".nv.shared", ".shstrtab")) + b"\0"
    sections = [(CODE, 1, 2 | 4, code), (LINES, 1, 0, lines), (".nv.shared", 8, 2, b""), (".shstrtab", 3, 0, names)]
    body, headers = b"", [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    for name, kind, flags, content in sections:
        at = (names.index(name.encode()), kind, flags, 0, 64 + len(body), len(content) or 1024, 0, 0, 1, 0)
        headers.append(struct.pack("<IIQQQQIIQQ", *at))
        body += content
    start = b"\x7fELF\x02\x01\x01".ljust(0x28, b"\0") + struct.pack("<Q", 64 + len(body))
    start += struct.pack("<IHHHHHH", 0, 64, 0, 0, 64, len(headers), len(headers) - 1)
    return start + body + b"".join(headers)


def digest(folder: Path, **cubins: bytes) -> str | None:
    for name, content in cubins.items():
        (folder / f"{name}.cubin").write_bytes(content)
    return digest_machine_code(folder)


def test_only_what_a_card_loads_changes_the_digest(tmp_path):
    first = digest(tmp_path, kernel=elf())
    assert first is not None and len(first) == 16
    assert digest(tmp_path, kernel=elf(lines=b"a line of comment")) == first
    assert digest(tmp_path, kernel=elf(code=b"edoc")) != first
    assert digest(tmp_path, kernel=elf(), second=elf()) != first


def test_a_build_without_a_cubin_has_no_digest(tmp_path):
    assert digest(tmp_path) is None
    assert digest(tmp_path, kernel=b"no cubin at all") is None


def test_a_record_of_a_measurement_has_the_digest_of_its_build(tmp_path):
    made = test_stage.build(tmp_path, "failed", "error")
    for content in (None, elf()):
        if content is not None:
            (made.parent / "kernel.cubin").write_bytes(content)
        stage.run_stage("timing", test_stage.IDENTITY, test_stage.TIMING, made, tmp_path / "out.json")
        code = record.plain(record.read("timing", tmp_path / "out.json"))["provenance"].get("machine_code")
        assert code == (None if content is None else digest_machine_code(made.parent))


@pytest.mark.parametrize(
    "recorded, refused",
    [
        ("same", None),
        ("other", "the machine code of rmsnorm/tilegym/v in results is not that which was measured"),
        (None, "what kernels/rmsnorm/tilegym was at commit none, where this was measured, is not known here"),
    ],
)
def test_a_build_is_held_against_what_was_measured_by_its_machine_code_where_that_is_known(tmp_path, recorded, refused):
    folder = tmp_path / "results/compile/rmsnorm/tilegym/sm_90a/v"
    folder.mkdir(parents=True)
    code = {"same": digest(folder, kernel=elf()), "other": "0" * 16, None: None}[recorded]
    sets = tmp_path / "sets/nvidia_h200"
    sets.mkdir(parents=True)
    entry = make_record(small_case(), {"hot_us": 1.0, "hot_sm_clock_mhz": 1980.0, "cold_us": 2.0, "sm_clock_mhz": None})
    variant = {"id": "v", "params": {}}
    entry["case"] |= {
        "operator": "rmsnorm",
        "kernel": "tilegym",
        "dsl": "cutile",
        "target": "sm_90a",
        "variant": variant,
    }
    entry["provenance"] |= {"commit": "none"} | ({"machine_code": code} if code else {})
    (sets / "timing-rmsnorm.jsonl").write_text(json.dumps(entry) + "\n")
    (result,) = cases.recorded(tmp_path / "sets")
    assert result.refused(tmp_path / "results") == refused
    assert result.by_name == (recorded is None)
