"""Record of the stage `plan`: what is requested, possible, and why not."""

from typing import Annotated, Any, Literal

from cutesnake.model.records.common import Ability, Dsl, Part, Provenance, Record, StageAbility, Variant, doc


class Axis(Part):
    """Field of the workloads along which plots are drawn, and its label."""

    field: str
    label: str


class Decision(Part):
    """What can be done with a kernel for a target."""

    operator: str
    kernel: str
    dsl: Dsl
    source: str
    target: str
    build: Ability
    run: Ability
    simulate: Ability


class BuildKey(Part):
    """A build to be made."""

    operator: str
    kernel: str
    target: str
    variant: Variant


class PlannedCase(Part):
    """A build and a workload of it."""

    build: Annotated[str, doc("operator/kernel/target/variant")]
    workload: str


class Unsupported(Part):
    """A workload that a kernel cannot compute."""

    operator: str
    kernel: str
    workload: str
    reason: str


class Predicted(Part):
    """What is predicted for targets without a GPU."""

    devices: Annotated[dict[str, str], doc("target -> GPU")]
    workloads: list[str]


class Plan(Record, tag="plan"):
    """results/plan/<operator>.json: what is asked of one operator, what this machine can do, and why not."""

    status: Literal["ok"]
    reason: None
    provenance: Provenance
    operator: str
    axis: Axis
    stages: list[StageAbility]
    decisions: list[Decision]
    sources: Annotated[
        dict[str, str], doc("kernel -> OWN or INSTALLED of the contract, or a key of kernels/upstream.yaml")
    ]
    workloads: Annotated[dict[str, dict[str, Any]], doc("id -> fields")]
    dtypes: Annotated[dict[str, list[str]], doc("target -> element types asked for there")]
    builds: list[BuildKey]
    cases: list[PlannedCase]
    simulated_cases: list[PlannedCase]
    unsupported: list[Unsupported]
    profiled: list[str]
    predicted: Predicted
    stand_ins: Annotated[
        dict[str, str] | None,
        doc(
            "builds that are not made, as operator/kernel/target/variant -> one that differs in compile-time sizes only"
        ),
    ] = None
    recorded_builds: Annotated[
        dict[str, list[str]] | None,
        doc("builds shown from recorded/builds/, as operator/kernel/target/variant -> names of their records"),
    ] = None
    not_built: Annotated[str | None, doc("why builds without a record are not made, if none is")] = None
