"""Record of the stage `compile`: one build of one kernel for one target and variant."""

from typing import Annotated

from msgspec import Meta

from cutesnake.model.records.common import BuildRecord, Count, Digest, Extent, Part, doc


class LaunchShape(Part):
    """Launch configuration that is fixed at compile time; null where only known at launch."""

    block: Extent | None
    cluster: Extent | None
    dynamic_shared_bytes: Count | None


class Compile(BuildRecord, tag="compile"):
    """build.json: one build of one kernel for one target and variant."""

    symbols: Annotated[list[str], doc("device functions, the main kernel first")]
    function: Annotated[str | None, doc("exported name of a CuTe object")]
    launch: Annotated[dict[str, LaunchShape], doc("by symbol")]
    compilers: dict[str, str]
    options: Annotated[str | None, doc("compiler options, without the variant's")]
    notes: list[str]
    files: dict[str, Digest]
    seconds: Annotated[float, Meta(ge=0), doc("processor time of compile() and its tools, without the DSL's import")]
    log_tail: str
    limit_s: Annotated[float | None, doc("time limit that ended the build: with a higher one it is tried again")] = None
