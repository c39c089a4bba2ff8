"""Of what every savable object consists: all that may come out of a file, class by class.

An attribute that a class gets or loses must be named here, or its models cannot be saved any more.
"""

# ruff: noqa: F401 (the modules are imported for what they say)
import onlinels.states.accumulators
import onlinels.states.features
import onlinels.states.linear
import onlinels.states.river_detectors
import onlinels.states.river_pipelines
import onlinels.states.river_transformers
import onlinels.states.stream
from onlinels.saving.files import load, save

__all__ = ["load", "save"]
