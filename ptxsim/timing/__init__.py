"""The clock of ptxsim: predicted launch times on a GPU.

See docs/ptxsim/model.md.
"""

from .device import DeviceError, DeviceModel, Parameter
from .divisions import numbers_matter
from .predict import predict
from .prediction import LaunchTime, Prediction, Span, Timeline, Track
from .sass import code_of

__all__ = [
    "DeviceError",
    "DeviceModel",
    "LaunchTime",
    "Parameter",
    "Prediction",
    "Span",
    "Timeline",
    "Track",
    "code_of",
    "numbers_matter",
    "predict",
]
