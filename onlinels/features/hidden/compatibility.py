"""Which settings of a hidden layer go together."""

from __future__ import annotations

from onlinels.features.hidden.differences import DIFFERENCES
from onlinels.features.hidden.draws import DISTRIBUTIONS, check_units
from onlinels.features.hidden.input_weights import InputWeights
from onlinels.features.hidden.receptive_fields import ReceptiveFields
from onlinels.settings import check_choice


def check_input_weights(
    input_weights: str | InputWeights,
    n_hidden: int,
    bias: bool,
    receptive_fields: ReceptiveFields | None,
) -> None:
    """Raise unless input weights are known, of the right width, and go with the other settings.

    Raises
    ------
    ValueError
        If they are not.
    """
    check_units(n_hidden, 1)
    if not isinstance(input_weights, InputWeights):
        check_choice("input_weights", input_weights, [*DISTRIBUTIONS, *DIFFERENCES])
    elif input_weights.n_hidden != n_hidden:
        raise ValueError(
            f"n_hidden={n_hidden} does not fit {input_weights}. "
            "Make new ones with HiddenLayer.from_examples."
        )
    elif receptive_fields is not None:
        raise ValueError(
            f"receptive_fields={receptive_fields} came with input weights that are made already, "
            "expected None. Pass both to HiddenLayer.from_examples."
        )
    if bias and input_weights not in DISTRIBUTIONS:
        raise ValueError(
            f"bias=True came with input_weights={input_weights!r}, expected random ones. Leave it "
            'out; "centred-difference" has offsets of its own.'
        )
