"""What all transformers of the package share: they learn nothing from the stream."""

from __future__ import annotations

from typing import Any, TypeVar

from river import base

from onlinels.checks import (
    PRECISIONS,
    check_choice,
    check_count,
    check_kind,
    checked_assignment,
)
from onlinels.saving import locked_copy, save_method

Transformer = TypeVar("Transformer", bound=base.Transformer)


class FixedTransformer(base.MiniBatchTransformer):
    """A transformer that learns nothing: its features are fixed before the first row."""

    save = save_method
    __copy__ = locked_copy
    __setattr__ = checked_assignment


def itself(transformer: Transformer, memo: dict[int, Any]) -> Transformer:
    """Return a transformer that never changes, as its deep copy."""
    return transformer


def check_common_settings(features: Any) -> None:
    """Raise unless the settings that most features have are valid."""
    check_kind("prefix", features.prefix, (str,))
    check_choice("dtype", features.dtype, PRECISIONS)
    check_count("seed", features.seed, 0)


def not_made(what: str, maker: str) -> ValueError:
    """Return the error raised if a part that needs examples is used without them."""
    use = f"Use {maker}.from_examples(X, ...) first."
    return ValueError(f"{what} made from examples, and no examples were given. {use}")
