"""What is replaced of Snakemake is there, and another version is told of."""

import importlib.metadata
import re

import pytest

from cutesnake.model.paths import ROOT
from cutesnake.runtime import snakemake_patches

REPLACED = (
    *(snakemake_patches.FACTORY, snakemake_patches.GROUP),
    *(snakemake_patches.PERSISTENCE, snakemake_patches.SCRIPT),
)


def test_the_version_that_is_pinned_is_the_one_that_was_tried() -> None:
    pinned = re.findall(r"^snakemake==(.+)$", (ROOT / "envs/requirements.in").read_text(), re.MULTILINE)
    assert pinned == [snakemake_patches.TRIED]


def test_another_version_is_told_of(monkeypatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: snakemake_patches.TRIED)
    assert snakemake_patches.other_version() is None
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.99.0")
    assert "this is Snakemake 9.99.0; four of its methods are replaced" in snakemake_patches.other_version()


@pytest.mark.parametrize("where", REPLACED)
def test_every_replaced_method_is_there(where) -> None:
    seen = []
    snakemake_patches.replace(where, lambda method: seen.append(method) or method)
    assert seen and callable(seen[0])


@pytest.mark.parametrize("where", ["snakemake.gone:GroupJob.end", "snakemake.jobs:Gone.end", "snakemake.jobs:Job.gone"])
def test_a_method_that_is_gone_is_one_line(where) -> None:
    with pytest.raises(
        snakemake_patches.OtherSnakemakeError, match=r"^Snakemake [\d.]+ has no \w+\.\w+ in .* replaces"
    ):
        snakemake_patches.replace(where, lambda method: method)
