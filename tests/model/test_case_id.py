"""CaseId turns builds and cases into keys and paths, and back."""

import pytest

from cutesnake.model.case_id import CaseId, CaseIdError

BUILD = CaseId("mla_decode", "cute_sm90", "sm_90a", "bf16_c2.v1")
CASE = CaseId("mla_decode", "cute_sm90", "sm_90a", "bf16_c2.v1", "b1_s1024")
ON_NODE = CaseId("mla_decode", "cute_sm90", "sm_90a", "bf16_c2.v1", "b1_s1024", "h200")


@pytest.mark.parametrize("case", [BUILD, CASE, ON_NODE], ids=lambda case: case.key)
def test_a_key_is_read_back(case) -> None:
    assert CaseId.parse(case.key) == case


@pytest.mark.parametrize("stage", ["compile", "inspect", "anatomy"])
def test_a_path_of_a_build_is_read_back(stage) -> None:
    assert CaseId.parse(BUILD.path(stage)) == BUILD
    assert CaseId.parse(f"/somewhere/{BUILD.path(stage)}") == BUILD


@pytest.mark.parametrize("stage", ["correctness", "timing", "nsys", "ncu", "predict"])
@pytest.mark.parametrize("case", [CASE, ON_NODE], ids=lambda case: case.key)
def test_a_path_of_a_case_is_read_back(stage, case) -> None:
    assert CaseId.parse(case.path(stage)) == case


def test_a_case_knows_its_build() -> None:
    assert ON_NODE.build == BUILD
    assert BUILD.build == BUILD


@pytest.mark.parametrize("case, stage", [(CASE, "compile"), (BUILD, "timing")])
def test_a_stage_of_the_other_kind_has_no_path(case, stage) -> None:
    with pytest.raises(CaseIdError):
        case.path(stage)


@pytest.mark.parametrize("text", ["", "a/b/c", "a//c/d", "a/b/c/d/e/f", "results/compile/a/b.json"])
def test_any_other_text_is_refused(text) -> None:
    with pytest.raises(CaseIdError):
        CaseId.parse(text)
