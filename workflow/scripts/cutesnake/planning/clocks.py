"""GPUs that ptxsim's clock can predict for."""

from cutesnake.planning.staleness import digest_data, recalled


class ClockError(ValueError):
    """ptxsim does not know a GPU, or cannot read its file. One line."""


def clock(name: str) -> dict[str, str]:
    """Return a GPU's target and parameter digest, importing ptxsim only if it changed."""
    if name.endswith((".yaml", ".yml")):  # a file of the user's own
        return _read(name)
    return recalled("clocks", name, lambda: _read(name))


def _read(name: str) -> dict[str, str]:
    import ptxsim
    from cutesnake.stages.predict import device

    try:
        target = ptxsim.DeviceModel.load(name).architecture
        return {"target": target, "digest": digest_data(device.table(name))}
    except ptxsim.DeviceError as error:
        raise ClockError(str(error)) from error
