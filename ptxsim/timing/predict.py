"""The call the outside makes: launches and a card in, microseconds out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from ..launch import Launch
from .device import DeviceModel
from .prediction import Prediction


def predict(
    launches: Launch | Iterable[Launch],
    device: str | Path | DeviceModel = "h200",
    *,
    clock_mhz: float | None = None,
    cache: Literal["warm", "cold"] = "warm",
    code: Mapping[str, Path] | Path | None = None,
) -> Prediction:
    """How long a call takes that makes these launches one after the other.

    device: a name in ptxsim/devices, a device file, or a DeviceModel. clock_mhz: the SM clock; by default the card's
    highest. cache: "warm" for calls back to back, whose data L2 still holds as far as it fits; "cold" for a lone call
    that finds nothing of it in L2. code: the cubin that ptxas made of the PTX, or one per kernel name, from which
    instruction counts and stalls are read; without it they are estimated from the PTX.
    Raises DeviceError for a device that is not known, PtxError for what cannot be simulated.
    """
    card = device if isinstance(device, DeviceModel) else DeviceModel.load(device)
    raise NotImplementedError(f"ptxsim cannot tell the time on {card.name} yet: the model is being written")
