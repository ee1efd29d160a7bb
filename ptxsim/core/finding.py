"""Findings of a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A fault: kind, message, kernel, PTX and source line, CTA, warp, lanes, repeat count."""

    kind: str
    message: str
    kernel: str
    ptx_line: int | None = None
    source: str | None = None
    instruction: str | None = None
    cta: tuple[int, int, int] | None = None
    warp: int | None = None
    lanes: tuple[int, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        where = f"{self.kernel[:48]}"
        if self.ptx_line is not None:
            where += f", PTX line {self.ptx_line}"
        if self.source:
            where += f", {self.source}"
        if self.cta is not None:
            where += f", CTA {self.cta}"
        if self.warp is not None:
            where += f", warp {self.warp}"
        return f"{self.kind}: {self.message} ({where})"
