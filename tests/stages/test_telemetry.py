"""What is read of the GPU next to a measurement.

What it makes of the driver's answers.
"""

import pytest

from cutesnake.stages.measure.telemetry import Telemetry


@pytest.mark.parametrize("bits, limited, reasons", [(0x1, False, []), (0x5, True, ["software power cap"])])
def test_the_power_limit_is_told_as_soon_as_it_was_seen(bits, limited, reasons):
    telemetry = Telemetry()
    assert not telemetry.is_limited()
    telemetry._samples += [(100.0, 40.0, 0x1), (700.0, 60.0, bits), (650.0, 61.0, 0x1)]
    assert telemetry.is_limited() is limited
    result = telemetry.summary()
    assert result["throttle_reasons"] == reasons
    assert (result["power_w"], result["median_power_w"], result["temperature_c"]) == (700.0, 650.0, 61.0)
