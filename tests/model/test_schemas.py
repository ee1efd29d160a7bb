"""The schemas: current, valid, and as strict as the types.

Errors of the types are one clear line.
"""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest

import sample
from cutesnake.model import record, schemas
from cutesnake.model.paths import SCHEMAS

RECORDS = {
    entry["stage"]: entry
    for result in (sample.evidence(gpu=True),)
    for entry in (sample.arch(gpu=True), result.plan, *result.builds.values(), *result.measured.values())
}
TEXTS = schemas.texts()


def test_every_schema_file_is_current() -> None:
    files = {path.name: path.read_text() for path in SCHEMAS.glob("*.json")}
    assert files == TEXTS, "run python -m cutesnake.model.schemas"


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_schema_is_valid_and_its_references_resolve(name) -> None:
    text = TEXTS[name]
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    references = [part.split('"')[0] for part in text.split("#/$defs/")[1:]]
    assert set(references) <= set(schema.get("$defs", {}))


@pytest.mark.parametrize("stage", sorted(RECORDS))
def test_a_record_of_every_kind_fits_its_type_and_its_schema(stage) -> None:
    record.check(stage, RECORDS[stage], "sample")
    jsonschema.validate(record.plain(RECORDS[stage]), json.loads(TEXTS[f"{stage}.schema.json"]))


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
    entry = copy.deepcopy(record.plain(RECORDS[stage]))
    entry[part] = {**(entry[part] or {}), **wrong}
    with pytest.raises(record.RecordError, match=part):
        record.check(stage, entry, "sample")


def test_a_wrong_type_is_told_in_words() -> None:
    entry = {**record.plain(RECORDS["compile"]), "provenance": None}
    with pytest.raises(record.RecordError, match="sample: provenance: it is empty; it must be a mapping of keys to"):
        record.check("compile", entry, "sample")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "failed"}, "sample: reason: it is empty; it must be a text where status is failed"),
        ({"metrics": None}, "sample: metrics: it is empty; it must be a mapping of keys to values where status is ok"),
        ({"status": "fine"}, "sample: status: it is 'fine'; it must be"),
        ({"stage": "ncu"}, "sample: stage: it is 'ncu'"),
        ({"seconds": "1"}, "sample: seconds: it is '1'; it must be a finite number or empty"),
    ],
)
def test_an_error_names_the_key_its_value_and_the_rule(change, message) -> None:
    with pytest.raises(record.RecordError) as caught:
        record.check("timing", {**record.plain(RECORDS["timing"]), **change}, "sample")
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_what_is_read_is_what_was_written(tmp_path) -> None:
    for stage, entry in RECORDS.items():
        record.write(stage, tmp_path / stage, entry)
        assert record.plain(record.read(stage, tmp_path / stage)) == record.plain(
            record.parse(stage, json.dumps(record.plain(entry)), "")
        )
