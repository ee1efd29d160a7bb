"""The command that measures what waits for a card: without one, and with pretended figures."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

from cutesnake.model.paths import ROOT
from kernels.mla_decode import cute_sm90
from kernels.mla_decode.operator import Workload

PLACE = ROOT / "benchmarks" / "mla_cute_sm90" / "next_card.py"


@pytest.fixture
def command(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("next_card", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_variant_that_is_measured_is_built(command):
    built = {variant.id: dict(variant.params) for variant in command.variants()}
    assert len(built) == 11
    for work in (Workload(1, 8192), Workload(64, 1024), Workload(128, 4096), Workload(1, 64, heads=16)):
        for variant in cute_sm90.variants(work, "sm_90a"):
            assert built[variant.id] == dict(variant.params)


def test_without_a_card_one_line_says_so(command, monkeypatch, tmp_path):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no H100 or H200 is visible here: nothing was measured"):
        command.main(tmp_path)


def test_tables_and_record_have_what_was_measured(command, monkeypatch, tmp_path, capsys):
    """Pretended: every call takes 10 us, trusted ones 8, planned ones 11, and `cluster2` is always the fastest."""
    import torch

    def times(root, work, names, turns=1, alike=False):
        found = {}
        for name in names:
            us = 8.0 if "trusted" in name else 11.0 if "planned" in name else 9.0 if "cluster2" in name else 10.0
            found[name] = {"warm_us": us, "cold_us": 2 * us}
            if name.endswith("planned"):
                found[name] |= {"plan_us": 20.0, "plan_cold_us": 25.0}
        return found

    checked = []
    monkeypatch.setattr(command, "times", times)
    monkeypatch.setattr(command, "check_plan", lambda root, work, name: checked.append(name))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "pretended")
    command.main(tmp_path)
    printed = capsys.readouterr().out
    kept = json.loads((tmp_path / "next_card.json").read_text())
    assert set(checked) == {"bf16_cluster1_planned", "bf16_cluster2_planned", "bf16_halves_planned"}
    assert "| b1_q1_s8192_bf16 | bf16_halves | 20.0 | 25.0 | 10.0 | 11.0 | 1.1 |" in printed
    assert {row["plan, cold"] for row in kept["plan"]} == {25.0}
    assert all(row["kept out / let through"] in (1.25, 1.125) for row in kept["padding"])
    assert len(kept["times"]) == sum(map(len, command.groups.GROUPS.values()))
    slow = [row for row in kept["times"] if row["behind, %"] > 3]
    assert slow and f"{len(kept['times']) - len(slow)} of {len(kept['times'])} within 3 %" in printed
    assert list(tmp_path.iterdir()) == [tmp_path / "next_card.json"]
