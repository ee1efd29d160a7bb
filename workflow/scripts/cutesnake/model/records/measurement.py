"""Records of cases: any measurement, by the stage's name."""

from cutesnake.model.records.autotune import Autotune
from cutesnake.model.records.common import Choice
from cutesnake.model.records.correctness import Correctness
from cutesnake.model.records.ncu import Ncu
from cutesnake.model.records.nsys import Nsys
from cutesnake.model.records.predict import Predict
from cutesnake.model.records.timing import Timing

Measurement = Correctness | Timing | Nsys | Ncu | Autotune  # what a recorded set keeps
CaseRecord = Measurement | Predict


def variant_id(case: Choice) -> str:
    """Return the id of a case's variant, empty where it has none."""
    return case.variant.id if case.variant else ""


def device_name(entry: CaseRecord) -> str | None:
    """Return the name of the GPU that measured, None without one."""
    return entry.device.name if entry.device else None
