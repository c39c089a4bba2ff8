"""What accumulators consist of."""

from __future__ import annotations

from typing import Any

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.centred import CentredAccumulator
from onlinels.accumulators.classwise import ClasswiseAccumulator
from onlinels.accumulators.corrected import N_RECENT, CorrectedMatrix
from onlinels.accumulators.fading import FadingRidge
from onlinels.accumulators.folded import FoldedAccumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.accumulators.inverse import RunningInverse
from onlinels.accumulators.mean import Mean
from onlinels.accumulators.orthogonal import OrthogonalAccumulator
from onlinels.accumulators.recursion import Recursion
from onlinels.accumulators.recursive import RecursiveAccumulator
from onlinels.accumulators.tracker import Tracker
from onlinels.accumulators.tracking import TrackedSolution
from onlinels.linalg.packed import Panel, SymmetricPanels
from onlinels.saving import (
    COLUMNS,
    FLAG,
    INT64,
    MEANS,
    NOTHING,
    POSITIVE,
    SHARE,
    VECTOR,
    WHOLE,
    Field,
    State,
    array,
    fixed,
    is_instance,
    listed,
    made_of,
    maybe,
    saved,
)


def _ledger_fits(acc: Any) -> bool:
    sizes = acc.n_features, acc.n_targets
    removed = zip(sizes, acc._removed, strict=True)
    fits = len(acc._target_squares) <= acc.n_targets
    return fits and all(len(each) <= size for size, each in removed)


def _panel_fits(panel: Any) -> bool:
    rows, width = panel.above.shape
    return bool(rows == panel.start and panel.corner.shape == (width, width))


def _panels_fit(panels: Any) -> bool:
    reserved = 0
    for panel in panels._panels:
        if panel.start != reserved:
            return False
        reserved += panel.corner.shape[0]
    return bool(panels._size <= reserved)


def _reserved(panels: Any) -> int:
    return int(sum(panel.corner.shape[0] for panel in panels._panels))


def _gram_fits(acc: Any) -> bool:
    rows, columns = acc._cross.shape
    fits = rows == _reserved(acc._gram) and columns >= acc.n_targets
    return fits and len(acc._gram) == acc.n_features and _ledger_fits(acc)


def _orthogonal_fits(acc: Any) -> bool:
    rows, columns = acc._rotated.shape
    fits = acc._factor.shape == (rows, rows)
    return fits and rows >= acc.n_features and columns >= acc.n_targets and _ledger_fits(acc)


def _settled_state(matrix: CorrectedMatrix) -> State:
    """Return the state without what tells of single rows; the matrix itself goes on alike."""
    matrix.settle()
    return dict(vars(matrix))


def _corrected_fits(matrix: Any) -> bool:
    size = len(matrix._recent)
    fits = matrix._base.shape == (size, size) and matrix._recent.shape[1] == N_RECENT
    return fits and len(matrix._signs) == N_RECENT and 0 <= matrix._n_recent <= N_RECENT


def _inverse_fits(inverse: Any) -> bool:
    return bool(inverse._n_features <= len(inverse._scaled._recent))


def _tracked_fits(tracked: Any) -> bool:
    size = len(tracked._scale)
    fits = len(tracked._active) == len(tracked._weights) == tracked._inverse.n_features
    return bool(fits and tracked._inverse.n_features == size)


def _recursion_fits(acc: Any) -> bool:
    rows, columns = acc._weights.shape
    fits = acc._inverse.n_features == len(acc._squares) == acc.n_features
    fits = fits and len(acc._ridges._entries) == acc.n_features and columns >= acc.n_targets
    return fits and rows == len(acc._inverse._scaled._recent) and _ledger_fits(acc)


def _inner_fits(acc: Any) -> bool:
    inner = acc._inner
    same = (inner.n_features, inner.n_targets) == (acc.n_features, acc.n_targets)
    return same and _ledger_fits(acc)


def _moments_fit(acc: Any) -> bool:
    inner, sizes = acc._comoments, (acc.n_features, acc.n_targets)
    means = len(acc._feature_mean.origin), len(acc._target_mean.origin)
    return (inner.n_features, inner.n_targets) == means == sizes and _ledger_fits(acc)


def _groups_fit(acc: Any) -> bool:
    members = [acc._prototype, *acc._members]
    same = len({type(member) for member in members}) == 1
    return same and all(member.n_features == acc.n_features for member in members)


def _folds_fit(acc: Any) -> bool:
    enough = len(acc._members) > 1 and acc._n_named <= len(acc._hashes) <= acc.n_features
    return enough and _groups_fit(acc)


LEDGER: dict[str, Field] = {
    "_n_features": WHOLE,
    "_n_targets": WHOLE,
    "_count": INT64,
    "_weight": SHARE,
    "_target_squares": VECTOR,
    "_removed": fixed(VECTOR, VECTOR),
}
ACCUMULATOR = is_instance(Accumulator)

saved(
    Panel,
    {"start": WHOLE, "above": COLUMNS, "corner": COLUMNS},
    _panel_fits,
)
saved(SymmetricPanels, {"_size": WHOLE, "_panels": listed(made_of(Panel))}, _panels_fit)
saved(
    Mean,
    {"origin": MEANS, "offset": MEANS},
    lambda mean: len(mean.origin) == len(mean.offset),
)
saved(
    FadingRidge,
    {
        "_entries": VECTOR,
        "_ridge": POSITIVE,
        "_least": POSITIVE,
        "_due": SHARE,
        "_pending": POSITIVE,
        "_lowest": POSITIVE,
    },
)
saved(
    CorrectedMatrix,
    {"_base": COLUMNS, "_recent": COLUMNS, "_signs": VECTOR, "_n_recent": INT64},
    _corrected_fits,
    take=_settled_state,
)
saved(
    RunningInverse,
    {"_n_features": WHOLE, "_scaled": made_of(CorrectedMatrix), "_scale": POSITIVE},
    _inverse_fits,
)
saved(
    TrackedSolution,
    {
        "_active": array("?", 1),
        "_scale": VECTOR,
        "_inverse": made_of(RunningInverse),
        "_weights": COLUMNS,
        "_ridge": POSITIVE,
        "_decay": POSITIVE,
        "_trusted": FLAG,
        "_n_products": WHOLE,
        "n_rows": WHOLE,
    },
    _tracked_fits,
)
saved(Tracker, {"_tracked": maybe(made_of(TrackedSolution)), "_n_new": SHARE})
saved(
    GramAccumulator,
    {
        **LEDGER,
        "_gram": made_of(SymmetricPanels),
        "_cross": COLUMNS,
        "_tracker": made_of(Tracker),
    },
    _gram_fits,
)
saved(
    OrthogonalAccumulator,
    {**LEDGER, "_factor": COLUMNS, "_rotated": COLUMNS},
    _orthogonal_fits,
)
saved(
    Recursion,
    {
        **LEDGER,
        "_ridge": POSITIVE,
        "_ridges": made_of(FadingRidge),
        "_squares": VECTOR,
        "_is_own": FLAG,
        "_inverse": made_of(RunningInverse),
        "_weights": COLUMNS,
    },
    _recursion_fits,
)
saved(
    RecursiveAccumulator,
    {**LEDGER, "_inner": made_of(GramAccumulator, Recursion)},
    _inner_fits,
)
MOMENTS = {
    **LEDGER,
    "_comoments": ACCUMULATOR,
    "_feature_mean": made_of(Mean),
    "_target_mean": made_of(Mean),
}
saved(CentredAccumulator, MOMENTS, _moments_fit)
GROUPED = {
    **LEDGER,
    "_prototype": ACCUMULATOR,
    "_members": listed(ACCUMULATOR),
    "_sum": NOTHING,
}
saved(ClasswiseAccumulator, GROUPED, _groups_fit)
saved(
    FoldedAccumulator,
    {**GROUPED, "_hashes": array("u8", 1), "_n_named": WHOLE},
    _folds_fit,
)
