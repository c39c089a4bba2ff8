"""Embedding: a function from images, texts or sounds to vectors, as a river transformer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinels.checks import Floats, Matrix, check_kind, check_values, dense, same
from onlinels.features.transformer import FixedTransformer
from onlinels.rows.answers import output_row, output_table
from onlinels.rows.batch import as_numpy, source_of
from onlinels.saving import is_small, savable, settings_hold

PROBE_TEXTS = (
    "The train to the coast leaves at nine in the morning.",
    "A red square, a green circle and two blue triangles.",
    "for i in range(10): print(i)",
)
"""Texts whose embeddings identify a function of texts."""

N_PROBE_IMAGES = 2
"""Number of images, drawn from a seed, whose embeddings identify a function of images."""

N_PROJECTIONS = 16
"""Number of random projections of a probe's embedding that a file holds."""

FINGERPRINT_TOLERANCE = 1e-2
"""Largest relative difference between fingerprints of the same function.

Networks in float32 differ by about 1e-6 between processors, and in bfloat16 by about 4e-3.
"""


def _probes_are_small(embed: Any) -> bool:
    # The images of a shape are made again for the function that `load` is given.
    return not isinstance(embed.probes, tuple) or is_small(N_PROBE_IMAGES, *embed.probes)


# A file holds no functions.
@savable(_probes_are_small, take=lambda embed: vars(embed) | {"function": None})
class IdentifiedFunction:
    """A function that embeds items, and the fingerprint that identifies it in a file.

    Parameters
    ----------
    function : callable
    probes : "texts", tuple of int, or list
        As for `Embedding`.

    Attributes
    ----------
    function : callable or None
        None in a loaded model until `load` is given the function.
    fingerprint : ndarray (n_probes, 16)
        Random projections of the embeddings of the probes.
    n_dimensions : int
        Length of an embedding.
    """

    def __init__(self, function: Any, probes: Any) -> None:
        if not callable(function):
            expected = "a function from a list of items to an array (n_items, n_dimensions)"
            problem = f"embed is of type {type(function).__name__}, expected {expected}"
            raise TypeError(f"{problem}. Pass the function itself.")
        items = _probe_items(probes)
        try:
            returned, alone = function(items), function(items[:1])
        except Exception as error:
            problem = f"embed raised {error!r} for probes={probes!r}, expected embeddings"
            remedy = "Pass a shape such as probes=(224, 224, 3), or items like those to embed."
            raise ValueError(f"{problem}. {remedy}") from error
        values = _embeddings(returned, items).astype(np.float64)
        if not _are_equal(_embeddings(alone, items[:1]).astype(np.float64), values[:1]):
            raise ValueError(
                "embed returned another vector for an item alone than for the item in a list, "
                "expected one vector per item that depends on this item alone. Put a network into "
                "evaluation mode (network.eval() in torch), and use no statistics of the list."
            )
        self.probes, self.function = probes, function
        # Of `random` alone numpy promises the same numbers in every version.
        projection = np.random.RandomState(0).random_sample((values.shape[1], N_PROJECTIONS)) - 0.5
        self.fingerprint, self.n_dimensions = values @ projection, values.shape[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IdentifiedFunction):
            return NotImplemented
        same_length = self.n_dimensions == other.n_dimensions
        return same_length and _are_equal(self.fingerprint, other.fingerprint)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return "None" if self.function is None else str(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> IdentifiedFunction:
        # A function may be a network of many megabytes.
        return self

    def __call__(self, items: list[Any]) -> Matrix:
        """Return the embeddings (n_items, n_dimensions) of items."""
        if self.function is None:
            problem = "embed is None, expected a function: model files hold no functions"
            raise ValueError(f"{problem}. Load the model with onlinels.load(path, embed=function).")
        if not items:
            # Functions of others may fail for no items. A probe has the length and dtype of all.
            return self(_probe_items(self.probes)[:1])[:0]
        values = _embeddings(self.function(items), items)
        if values.shape[1] != self.n_dimensions:
            problem = f"embed returned {values.shape[1]} numbers for an item"
            expected = f"{self.n_dimensions} as for the probes"
            raise ValueError(f"{problem}, expected {expected}. Return vectors of one length.")
        return values

    def attach(self, function: Callable[[list[Any]], Any]) -> None:
        """Set the function of a loaded model, or raise if the fingerprint differs."""
        if IdentifiedFunction(function, self.probes) != self:
            fault = f"embed={function!r} returns other embeddings for the probes than the function"
            remedy = "Pass the same function, with the same weights and the same preprocessing."
            raise ValueError(f"{fault} with which the model was saved. {remedy}")
        self.function = function


@savable(settings_hold)
@dataclass(eq=False, repr=False)
class Embedding(FixedTransformer):
    """Embed images, texts or sounds by a function, such as a pretrained network.

    The function is never trained. It is the first step of a pipeline; the recommended classifier is
    ``Embedding(embed) | LeastSquaresClassifier(priors="equal")``.

    Parameters
    ----------
    embed : callable
        Function that takes a list of n items and returns an array (n, n_dimensions), a tensor on
        the CPU, or anything else that numpy converts. The vector of an item must depend on this
        item alone: for a torch network, call ``network.eval()`` first. The first probe is compared
        with itself in a list, which shows most functions for which this does not hold.
    probes : "texts", tuple of int, or list
        Items whose embeddings identify the function in files and in merges. "texts": three
        sentences. A shape such as (224, 224, 3): two uint8 arrays of random pixels. Otherwise a
        list of items like those of the stream, as texts or arrays. Model files hold the list, so
        the items should not come from private data.
    prefix : str
        Start of the names of the outputs, for a TransformerUnion.

    Raises
    ------
    TypeError
        If `embed` is not callable.
    ValueError
        If `embed` fails on the probes, does not return one vector of finite numbers per item, or
        returns another vector for an item alone than in a list.

    Notes
    -----
    A sample is a dict with one value, such as ``{"image": array}`` or ``{"text": "..."}``, or an
    array. A mini-batch is a list of samples, a list of items, an array (n, ...) of images or a
    frame with one column; the function is called once per mini-batch.

    A model file holds a fingerprint of the function and never the function:
    ``onlinels.load(path, embed=embed)`` compares the fingerprints and refuses another function. A
    model that is loaded without `embed` can be inspected and merged. Pipelines merge if the
    fingerprints of their functions are equal; the merged model has the function of the first model.

    Examples
    --------
    >>> def embed(texts):
    ...     return [[len(text), text.count(" ")] for text in texts]
    >>> Embedding(embed).transform_one({"text": "one two"})
    {'h': array([7., 1.], dtype=float32)}
    """

    embed: Any
    probes: Any = "texts"
    prefix: str = ""

    def __post_init__(self) -> None:
        check_kind("prefix", self.prefix, (str,))
        # Copied, because the caller may reuse the memory of arrays.
        vars(self)["probes"] = copy.deepcopy(self.probes)
        given = self.embed
        if isinstance(given, IdentifiedFunction):
            # A clone has the function of the original.
            if same(given.probes, self.probes):
                return
            given = given.function
        vars(self)["embed"] = IdentifiedFunction(given, self.probes)

    def transform_one(self, x: Any) -> dict[Any, Any]:
        """Return the embedding of one sample or of one array, {"h": array (n_dimensions,)}."""
        return output_row(self.embed([_item_of(x, "x")])[0], True, self.prefix)

    def transform_many(self, X: Any) -> Any:
        """Return the embeddings of a mini-batch, in the kind of `X`.

        Parameters
        ----------
        X : list of samples or of items, array (n, ...), or frame with one column

        Returns
        -------
        list of dicts, array (n, n_dimensions), or frame
        """
        source = source_of(dense(X))
        shape, probes = np.shape(source) if isinstance(source, np.ndarray) else (), self.probes
        if isinstance(probes, tuple) and shape and len(shape) == len(probes):
            fault = f"X has the shape {shape} of one item, expected (n, {str(probes)[1:-1]})"
            raise ValueError(f"{fault}. Pass X[None], or use the method that ends in _one.")
        return output_table(source, self.embed(_items_of(source)), True, self.prefix)


def _item_of(x: Any, argument: str) -> Any:
    """Return the one value of a sample, or an array itself."""
    if isinstance(x, np.ndarray) and x.ndim:
        return x
    if not isinstance(x, Mapping) or len(x) != 1:
        found = f"{len(x)} values" if isinstance(x, Mapping) else f"the type {type(x).__name__}"
        expected = 'an array, or a dict with one item to embed, such as {"text": "..."}'
        remedy = (
            f"Convert a row with {argument}.to_dict() or {argument}._asdict(), and select one item "
            "with river's compose.Select(name) | Embedding(...)."
        )
        raise ValueError(f"{argument} has {found}, expected {expected}. {remedy}")
    item = next(iter(x.values()))
    if item is None:
        problem = f"{argument} holds None, expected an item to embed"
        raise ValueError(f"{problem}. Leave out samples without an item.")
    return item


def _items_of(X: Any) -> list[Any]:
    """Return the items of a list, an array, or a frame of narwhals."""
    if isinstance(X, (list, tuple, np.ndarray)):
        return [_item_of(x, f"X[{n}]") if isinstance(x, Mapping) else x for n, x in enumerate(X)]
    if len(X.columns) != 1:
        problem = f"X has the columns {X.columns}, expected one column of items"
        raise ValueError(f"{problem}. Select one.")
    return list(X[X.columns[0]].to_list())


def _embeddings(returned: Any, items: list[Any]) -> Matrix:
    """Return what a function returned for items, checked, in float32 or float64."""
    try:
        values = np.asarray(as_numpy(returned, "embed's result"))
    except ValueError as error:
        problem = "embed returned lists of different lengths, expected one length"
        raise ValueError(f"{problem}. Return one vector per item.") from error
    if values.ndim != 2 or len(values) != len(items) or not values.shape[1]:
        problem = f"embed returned an array of shape {values.shape} for {len(items)} items"
        expected = f"({len(items)}, n_dimensions)"
        raise ValueError(f"{problem}, expected {expected}. Return one vector per item.")
    check_values("embed's result", values)
    return values if values.dtype == np.float64 else values.astype(np.float32, copy=False)


def _probe_items(probes: Any) -> list[Any]:
    """Return the items that `probes` describes."""
    if isinstance(probes, str) and probes == "texts":
        return list(PROBE_TEXTS)
    if isinstance(probes, tuple) and probes and all(type(n) is int and n > 0 for n in probes):
        pixels = np.random.RandomState(0).random_sample((N_PROBE_IMAGES, *probes))
        return list((256.0 * pixels).astype(np.uint8))
    if isinstance(probes, list) and len(probes) > 1:
        return probes
    expected = '"texts", a shape such as (224, 224, 3), or a list of at least two items'
    problem = f"probes={probes!r} describes no items, expected {expected}"
    raise ValueError(f"{problem}. Pass one of them.")


def _are_equal(a: Floats, b: Floats) -> bool:
    """Tell whether two fingerprints are equal but for rounding."""
    if a.shape != b.shape:
        return False
    differences, lengths = np.linalg.norm(a - b, axis=1), np.linalg.norm(a, axis=1)
    return bool((differences <= FINGERPRINT_TOLERANCE * lengths).all())
