"""Record of the stage `plot`: plots that were drawn, and why others were not."""

from typing import Annotated, Literal

import msgspec

from cutesnake.model.records.common import Origin, Part, Provenance, Record, doc, need


class PlotEntry(Part):
    """One plot, or the reason why it was not drawn."""

    name: str
    title: str
    device: Annotated[Origin | None, doc("where the measurements come from")]
    file: Annotated[str | None, doc("in this record's folder; null if there was nothing to show")]
    alt: str | None
    caption: str | None
    reason: str | None

    def __post_init__(self) -> None:
        if self.file is None:
            need(bool(self.reason), "reason", "it is empty; it must be a text where there is no file")
        else:
            need(bool(self.alt), "alt", "it is empty; it must be a text where there is a file")


class Plot(Record, tag="plot"):
    """results/plot/<operator>/: plots that were drawn, and why others were not."""

    status: Literal["ok"]
    reason: None
    provenance: Provenance
    operator: Annotated[str | None, doc("null for the overview of all")]
    plots: list[PlotEntry] = msgspec.field(name="pictures")
