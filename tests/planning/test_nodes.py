"""Classes of nodes.

Plans are made from what jobs found there, and one run holds several kinds of GPUs.
"""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cutesnake.planning import config as configuration
from cutesnake.planning import matrix, nodes
from cutesnake.planning.strict_yaml import read

ROOT = Path(__file__).resolve().parents[2]
CLASSES = """
classes:
  cpu: {partition: short}
  h100: {partition: gpu, device: NVIDIA H100 PCIe, gpu_model: h100}
  h200: {partition: gpu, device: NVIDIA H200, gpu_model: h200, alone: node}
  b200: {partition: gpu, device: NVIDIA B200}
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch, machine):
    """The classes, all looked at but b200."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "machines.yaml").write_text(CLASSES)
    for name, mocked in (("cpu", "none"), ("h100", "h100_pcie"), ("h200", "h200")):
        nodes.write_probe(name, machine(mocked), f"results/machine/{name}.json")
    return nodes.read_classes("machines.yaml")


@pytest.fixture
def plan(cluster, machine):
    def make(head: str = "none") -> matrix.Plan:
        whole = read(ROOT / "config/config.yaml", "config") | {"operators": ["elementwise_add"]}
        builder, places = nodes.sort_out(cluster, machine(head), Path("results"))
        return matrix.make_plan(configuration.check(whole), builder, places)

    return make


def test_each_kind_of_card_has_its_own_cases_and_fingerprint(plan) -> None:
    result = plan()
    timed = [case.id for case in result.cases_to_run("timing")]
    assert {case.node_class for case in timed} == {"h100", "h200"}
    assert len(timed) == len(set(timed)) == 2 * sum(case.node_class == "h100" for case in timed)
    prints = {name: nodes.of_a_kind(place) for name, place in result.places.items()}
    assert len({prints["h100"], prints["h200"]}) == 2
    case = result.planned_case(timed[-1])
    assert case is not None and case.id == timed[-1] and case.place in ("h100", "h200")
    assert result.planned_case(replace(timed[-1], node_class="h300")) is None


def test_the_machine_that_plans_does_not_count(plan) -> None:
    # A head node with a GPU plans what one without plans. Its own GPU measures nothing.
    one, other = plan("none"), plan("b200")
    assert asdict(one) == asdict(other)


def test_any_card_of_a_class_is_as_good_as_another_and_another_driver_is_not(machine) -> None:
    h200 = machine("h200")
    twin = replace(h200, devices=(replace(h200.devices[0], uuid_hash="another"),))
    older = replace(h200, devices=(replace(h200.devices[0], driver="570.1"),))
    assert nodes.of_a_kind(h200) == nodes.of_a_kind(twin) != nodes.of_a_kind(older)


def test_a_class_that_no_job_has_looked_at_runs_nothing_and_says_so(plan, cluster, machine) -> None:
    result = plan()
    (b200,) = [entry for entry in result.as_dict()["classes"] if entry["name"] == "b200"]
    assert b200["device"] is None and "no job has looked at a node of class b200 yet: snakemake" in b200["reason"]
    nodes.write_probe("b200", machine("h200"), "results/machine/b200.json")
    (b200,) = [entry for entry in plan().as_dict()["classes"] if entry["name"] == "b200"]
    assert "a node of class b200 has an NVIDIA H200, where the file of classes says NVIDIA B200" in b200["reason"]
    Path("results/machine/b200.json").write_text("{")
    assert "not a whole JSON file" in plan().places["b200"].problem


def test_simulation_is_for_targets_that_no_class_runs(plan) -> None:
    result = plan()
    assert {case.build.target for case in result.simulated.values()} <= {"sm_100a"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes: {}", "machines.yaml: classes"),
        ("classes: {cpu: {queue: x}}", "classes/cpu: unknown key 'queue'; allowed: partition, "),
        ("classes: {a: {partition: x}, b: {partition: y}}", "more than one has no `device`"),
        (
            "classes: {h200: {device: NVIDIA H200, alone: rack}}",
            "h200/alone: it is 'rack'; it must be card or node",
        ),
        ("classes: [", "machines.yaml"),
    ],
)
def test_a_wrong_file_of_classes_is_told_in_one_line(tmp_path, monkeypatch, text, message) -> None:
    monkeypatch.chdir(tmp_path)
    Path("machines.yaml").write_text(text)
    with pytest.raises(nodes.NodesError) as caught:
        nodes.read_classes("machines.yaml")
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_the_example_in_the_repository_is_a_file_of_classes() -> None:
    assert list(nodes.read_classes(ROOT / "config/machines.yaml")) == ["cpu", "h100", "h200"]
