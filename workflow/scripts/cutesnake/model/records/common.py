"""What records of several stages share: provenance, status, variant, case, device."""

from typing import Annotated, Any, Generic, Literal, TypeVar, dataclass_transform

import msgspec
from msgspec import Meta

Dsl = Literal["cute", "cutile", "torch", "cuda", "cute_jit", "unknown"]
Status = Literal["ok", "failed"]
Backend = Literal["cuda", "ptxsim"]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Extent = tuple[Positive, Positive, Positive]  # x, y, z
Parameter = int | float | str | bool


def doc(text: str) -> Meta:
    """Describe a field in its JSON schema."""
    return Meta(description=text)


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of records and their parts: immutable, no unknown keys. An absent key is None."""


class Record(Part, tag_field="stage"):
    """Base of the records that stages write; `stage` says which one."""

    @property
    def stage(self) -> str:
        """Stage that writes such records."""
        return str(self.__struct_config__.tag)


class Provenance(Part, kw_only=True):
    """What a record was made from."""

    made_from: Annotated[
        dict[str, Any] | str | None, doc("inputs by name, or their digest; absent in recorded sets")
    ] = None
    digest: Annotated[str | None, doc("digest of the record's inputs")] = None


class Dated(Provenance):
    """Provenance with the time of making."""

    created: Annotated[str, doc("UTC, ISO 8601")]


class Built(Dated):
    """Provenance of a record that needs no GPU."""

    python: str
    platform: str


class Measured(Dated):
    """Provenance of a measurement."""

    commit: Annotated[str | None, doc("hash")]
    python: str
    packages: dict[str, str | None]
    mocked: Annotated[bool | None, doc("the machine was described by a file (CUTESNAKE_MACHINE): no GPU ran")] = None
    machine_code: Annotated[
        str | None,
        doc(
            "digest of the code and constants that the GPU loads; absent where nothing was compiled, and in records "
            "from before 2026-11-22, 13:00 UTC"
        ),
    ] = None


class Variant(Part):
    """A variant of a kernel: its id and compile-time parameters."""

    id: Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]+$")]
    params: dict[str, Parameter]


class Origin(Part):
    """Where measurements come from: first and last day, and commits, the oldest first."""

    kind: Literal["live", "recorded", "none"]
    device: str | None
    dates: list[str]
    commits: list[str]


class Ability(Part):
    """Whether something can be done, and why not."""

    ok: bool
    reason: str | None


class StageAbility(Part):
    """Whether a stage can run on this machine, and why not."""

    stage: str
    ok: bool
    reason: str | None


class Choice(Part):
    """A workload of a kernel on a target, for any variant."""

    operator: str
    kernel: str
    dsl: Dsl
    target: str
    variant: Variant | None
    workload: Annotated[str, doc("id")]
    parameters: Annotated[dict[str, Any], doc("fields of the operator's Workload")]


class Case(Choice):
    """A workload of a variant of a kernel on a target."""

    variant: Variant


class Device(Part):
    """A GPU that measured something."""

    name: str
    compute_capability: tuple[int, int]
    driver: str
    uuid_hash: Annotated[str | None, doc("distinguishes two GPUs of one name; null in recorded sets")]


def field(part: Part, key: str) -> Any:
    """Return the value of a part's key, None for an unknown key."""
    names = dict(zip(part.__struct_encode_fields__, part.__struct_fields__, strict=True))
    return getattr(part, names[key]) if key in names else None


def need(fits: bool, key: str, rule: str) -> None:
    """Raise ValueError unless a rule between a part's fields holds."""
    if not fits:
        raise ValueError(f"{key}: {rule}")


def check_outcome(status: str, reason: str | None, metrics: object) -> None:
    """Check that a record that failed says why, and that any other has metrics."""
    if status == "ok":
        need(reason is None, "reason", "it must be empty where status is ok")
        need(metrics is not None, "metrics", "it is empty; it must be a mapping of keys to values where status is ok")
    else:
        need(reason is not None, "reason", "it is empty; it must be a text where status is failed")


class BuildRecord(Record):
    """Base of the records of one build."""

    status: Status
    reason: Annotated[str | None, doc("of a failed build, the compiler's message")]
    provenance: Built
    operator: str
    kernel: str
    dsl: Dsl
    source: Annotated[str, doc("OWN or INSTALLED of the contract, or a key of kernels/upstream.yaml")]
    target: str
    variant: Variant

    @property
    def identity(self) -> dict[str, Any]:
        """Return which build it is, as other records of the build have it."""
        names = ("operator", "kernel", "dsl", "source", "target")
        return {**{name: getattr(self, name) for name in names}, "variant": msgspec.to_builtins(self.variant)}


Metrics = TypeVar("Metrics")


class CaseRecord(Record, Generic[Metrics]):
    """Base of the records of one case's checks, times or profile."""

    status: Status
    reason: Annotated[str | None, doc("of a failed record, one sentence")]
    provenance: Measured
    case: Case
    device: Device | None
    backend: Backend
    seconds: Annotated[float | None, doc("from when the GPU was the case's own to its end")]
    metrics: Metrics | None

    def __post_init__(self) -> None:
        check_outcome(self.status, self.reason, self.metrics)
