"""Record of a batch: the cases that one job measures."""

from typing import Annotated, Literal

from cutesnake.model.records.common import Dated, Record, doc


class Batch(Record, tag="batch"):
    """results/batch/<stage>/<operator>/<kernel>/<target>/<variant>/<number>.json."""

    status: Literal["ok"]
    reason: None
    provenance: Dated
    records: Annotated[list[str], doc("paths of the cases' records")]
