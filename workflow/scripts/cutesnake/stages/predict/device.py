"""The GPU that a prediction is for, as ptxsim's clock takes it."""

from dataclasses import asdict
from typing import Any


def table(device: str) -> dict[str, Any]:
    """Return all parameters of a GPU by name, with values and sources.

    A prediction is stale once they differ. Raises ptxsim.DeviceError for a GPU that is not known.
    """
    import ptxsim

    model = ptxsim.DeviceModel.load(device)
    return {name: asdict(parameter) for name, parameter in model.parameters.items()}
