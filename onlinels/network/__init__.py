"""ShallowConvClassifier: from images to labels, both stages of the paper in one estimator.

`classifier` is what users call. It holds one stage at a time (`stages`): first a `WarmUp`, which
holds images, then a `FixedNetwork`, whose linear layer learns. `presets` are settings.
"""

from onlinels.network.classifier import ShallowConvClassifier as ShallowConvClassifier
from onlinels.network.presets import PART_PARAMETERS as PART_PARAMETERS
from onlinels.network.presets import PRESETS as PRESETS
from onlinels.network.presets import preset_settings as preset_settings
from onlinels.network.stages import PIXEL_RIDGE as PIXEL_RIDGE
from onlinels.network.stages import Example as Example  # In earlier pickles.
from onlinels.network.stages import FixedNetwork as FixedNetwork  # In earlier pickles.
from onlinels.network.stages import PixelNetwork as PixelNetwork
from onlinels.network.stages import unit_pixels as unit_pixels
