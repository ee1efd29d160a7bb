"""Identify builds and cases: turn them into keys and paths, and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

RESULTS = "results"
# Stages whose record of a build lies in the build's own folder, or is one file a build.
BUILD_RECORDS = {"compile": "build.json"}
PER_BUILD = ("compile", "inspect", "anatomy")


class CaseIdError(ValueError):
    """A text that names no build and no case."""


@dataclass(frozen=True, order=True)
class CaseId:
    """Identify a build, or a build run on a workload by a class of nodes.

    `workload` is None for a build. `node_class` is empty for this machine.
    """

    operator: str
    kernel: str
    target: str
    variant: str
    workload: str | None = None
    node_class: str = ""

    @property
    def build(self) -> CaseId:
        """Return the build of this case."""
        return replace(self, workload=None, node_class="")

    @property
    def key(self) -> str:
        """Return `operator/kernel/target/variant[/workload[@class]]`, which `parse` reads."""
        return "/".join(self.wildcards.values())

    @property
    def family(self) -> str:
        """Return `operator/kernel/target`, which variants and workloads share."""
        return f"{self.operator}/{self.kernel}/{self.target}"

    @property
    def wildcards(self) -> dict[str, str]:
        """Return the parts of `key` by their names in rules."""
        parts = {"operator": self.operator, "kernel": self.kernel, "target": self.target, "variant": self.variant}
        if self.workload is not None:
            parts["workload"] = self.workload + (f"@{self.node_class}" if self.node_class else "")
        return parts

    def path(self, stage: str) -> str:
        """Return the path of this case's record of a stage, from the working directory."""
        build = stage in PER_BUILD
        if build == (self.workload is not None):
            raise CaseIdError(f"{self.key}: the stage {stage} has a record per {'build' if build else 'case'}")
        if stage in BUILD_RECORDS:
            return f"{RESULTS}/{stage}/{self.key}/{BUILD_RECORDS[stage]}"
        return f"{RESULTS}/{stage}/{self.key}.json"

    @classmethod
    def parse(cls, text: str | Path) -> CaseId:
        """Return what a record's key or path names; CaseIdError for any other text."""
        parts = str(text).split("/")
        stage = parts[-6] if len(parts) > 5 else ""
        if parts[-1] == BUILD_RECORDS.get(stage):
            parts = parts[-5:-1]
        elif parts[-1].endswith(".json") and RESULTS in parts:
            at = len(parts) - 1 - parts[::-1].index(RESULTS)
            parts = [*parts[at + 2 : -1], parts[-1].removesuffix(".json")]
        if len(parts) not in (4, 5) or not all(parts):
            raise CaseIdError(f"{text}: neither operator/kernel/target/variant nor the same with a workload")
        operator, kernel, target, variant, *rest = parts
        workload, _, node_class = "".join(rest).partition("@")
        return cls(operator, kernel, target, variant, workload or None, node_class)
