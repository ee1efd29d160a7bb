"""The card that a prediction is for, as ptxsim's clock takes it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any


def table(device: str) -> dict[str, Any]:
    """All parameters of a card by name, with their values and where those come from.

    A prediction is stale once they differ. Raises ptxsim.DeviceError for a card that is not known.
    """
    import ptxsim

    model = ptxsim.DeviceModel.load(device)
    return {name: asdict(parameter) for name, parameter in model.parameters.items()}
