"""The call the outside makes: launches and a card in, microseconds out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..launch import Launch
from ..machine import one_thread
from .device import DeviceModel
from .launch_time import Setting, Timed, time_launch
from .memory_system import Cache
from .prediction import Prediction
from .sass import code_of
from .stream import call_us, times


def predict(
    launches: Launch | Iterable[Launch],
    device: str | Path | DeviceModel = "h200",
    *,
    clock_mhz: float | None = None,
    cache: Cache = "warm",
    code: Mapping[str, Path] | Path | None = None,
) -> Prediction:
    """How long a call takes that makes these launches one after the other.

    device: a name in ptxsim/devices, a device file, or a DeviceModel. clock_mhz: the SM clock; by default the card's
    highest. cache: "warm" for calls back to back, whose data L2 still holds as far as it fits; "cold" for a lone call
    that finds nothing of it in L2. code: the cubin that ptxas made of the PTX, or one per kernel name, from which
    instruction counts and stalls are read; without it they are estimated from the PTX.
    Memory is left as it was. Raises DeviceError for a device or cubin that cannot be used, PtxError for what cannot be
    simulated.
    """
    card = device if isinstance(device, DeviceModel) else DeviceModel.load(device)
    clock = clock_mhz or card.figures.sm_clock_mhz
    given = [launches] if isinstance(launches, Launch) else list(launches)
    with np.errstate(all="ignore"), one_thread():
        timed = [time_launch(Setting(launch, card, code_of(launch.name, code), clock, cache)) for launch in given]
    return prediction(timed, card, clock, cache)


def prediction(timed: Sequence[Timed], card: DeviceModel, clock_mhz: float, cache: Cache) -> Prediction:
    """The launches of a call put together."""
    spans = times([timed], card, clock_mhz)
    parts = tuple(x.at(start, end, clock_mhz) for x, (start, end) in zip(timed, spans, strict=True))
    return Prediction(call_us(timed, card, clock_mhz, cache), card.name, clock_mhz, parts, tuple(card.assumed()))
