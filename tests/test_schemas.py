"""The schemas: each is valid, what they share is found, and what is shared still refuses what is wrong."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest

import sample
from cutesnake.model import record
from cutesnake.model.paths import SCHEMAS

RECORDS = {
    entry["stage"]: entry
    for found in (sample.evidence(gpu=True),)
    for entry in (sample.arch(gpu=True), found.plan, *found.builds.values(), *found.measured.values())
}


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.name.split(".")[0])
def test_every_schema_is_valid_and_what_it_refers_to_is_there(path) -> None:
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    shared = json.loads((SCHEMAS / record.COMMON).read_text())["$defs"]
    references = [part.split('"')[0] for part in path.read_text().split(f"{record.COMMON}#/$defs/")[1:]]
    assert set(references) <= set(shared)


@pytest.mark.parametrize("stage", sorted(RECORDS))
def test_a_record_of_every_kind_fits_its_schema(stage) -> None:
    record.check(stage, RECORDS[stage], "sample")


@pytest.mark.parametrize("stage", ["correctness", "timing", "nsys", "ncu"])
@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("case", {"variant": None}),
        ("case", {"dsl": "fortran"}),
        ("device", {"uuid": "x"}),
        ("provenance", {"user": "x"}),
    ],
)
def test_shared_parts_refuse_what_is_wrong(stage, part, wrong) -> None:
    entry = copy.deepcopy(RECORDS[stage])
    entry[part] = {**(entry[part] or {}), **wrong}
    with pytest.raises(record.RecordError, match=part):
        record.check(stage, entry, "sample")


def test_a_wrong_type_is_told_in_words() -> None:
    with pytest.raises(record.RecordError, match="sample: provenance: it is empty; it must be a mapping of keys to"):
        record.check("compile", {**RECORDS["compile"], "provenance": None}, "sample")
