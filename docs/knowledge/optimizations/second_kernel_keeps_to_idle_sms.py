"""Size of a second kernel that starts early, on idle SMs."""


def grid(wanted, sms, busy_sms, per_sm):
    """Return the CTAs of a second kernel; they loop over more work."""
    idle = (sms - busy_sms) * per_sm
    return min(wanted, idle) if idle else wanted


def test_it_takes_no_more_than_fits():
    assert grid(wanted=256, sms=132, busy_sms=64, per_sm=2) == 136
    assert grid(wanted=100, sms=132, busy_sms=64, per_sm=2) == 100
    assert grid(wanted=256, sms=132, busy_sms=132, per_sm=2) == 256  # none is idle: it starts at the end
