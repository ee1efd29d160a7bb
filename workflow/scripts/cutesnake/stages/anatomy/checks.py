"""Check a record against itself: contradictions show that a kernel was read wrongly."""

from collections.abc import Iterator, Mapping
from typing import Any

from cutesnake.stages.anatomy.roles import IDLE


def contradictions(function: Mapping[str, Any]) -> list[str]:
    """Return the contradictions in an entry of a record's `functions`, in words."""
    return [*_idle_roles(function), *_stage_sizes(function)]


def _idle_roles(function: Mapping[str, Any]) -> Iterator[str]:
    """Find idle roles that use barriers, copy or multiply."""
    taking_part: dict[str, str] = {}
    for pipeline in function["pipelines"] or ():
        for name in (*pipeline["producers"], *pipeline["consumers"]):
            taking_part.setdefault(name, f"takes part in the pipeline {pipeline['name']}")
    for barrier in function["barriers"] or ():
        for use in (*barrier["arrivals"], *barrier["waits"]):
            taking_part.setdefault(use["role"], f"uses the mbarrier at {barrier['offset']}")
    for descriptor in function["descriptors"] or ():
        for use in descriptor["uses"]:
            for name in use["role"].split(" and "):
                taking_part.setdefault(name, f"copies {descriptor['tensor']}")
    for product in function["products"] or ():
        for name in product["roles"]:
            taking_part.setdefault(name, "issues MMAs")
    roles = function["roles"] or []
    for role in roles:
        if role["name"].split(" ")[0] == IDLE and role["name"] in taking_part:
            yield f"role {role['name']} {taking_part[role['name']]}"
    if roles and all(role["name"].split(" ")[0] == IDLE for role in roles):
        yield "no role did any work in the watched run"


def _stage_sizes(function: Mapping[str, Any]) -> Iterator[str]:
    """Find buffers that their stages do not fill."""
    for buffer in function["shared"]["buffers"] or ():
        stages, each = buffer["stages"], buffer["stage_bytes"]
        if stages and each and stages * each != buffer["bytes"]:
            yield f"{stages} stages of {each} B do not fill the {buffer['bytes']} B of {buffer['name']}"
