"""Lessons by key: corrected and removed exactly, and those that the others contradict."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onlinels
from onlinels import HiddenLayer, LeastSquaresClassifier, ShallowConvClassifier
from onlinels.lessons import LessonBook, leave_one_out_scores
from support.digits_network import IMAGES, LABELS
from support.laws import assert_refused, fitted, targets_of, weighted_centred


def rows_and_labels(seed, n=30):
    """Return rows of three classes about their means."""
    random = np.random.default_rng(seed)
    labels, means = random.integers(0, 3, n), random.normal(size=(3, 4))
    return means[labels] + random.normal(0, 0.4, (n, 4)), ["abc"[label] for label in labels]


def book_of(rows, labels, model=None):
    """Return a book of lessons, whose keys are their places."""
    book = LessonBook(LeastSquaresClassifier(ridge=1.0) if model is None else model)
    for key, (row, label) in enumerate(zip(rows, labels, strict=True)):
        book.add(key, row, label)
    return book


def network():
    return ShallowConvClassifier.from_preset(
        "digits", filters="hand-designed", input_weights="gaussian", n_hidden=20, ridge=1.0
    )


@settings(max_examples=25)
@given(
    seed=st.integers(0, 999),
    n=st.integers(3, 30),
    ridge=st.sampled_from([0.01, 1.0, 30.0]),
    fit_intercept=st.booleans(),
    others=st.fixed_dictionaries(
        {"scaling": st.sampled_from([None, "standard"]), "priors": st.sampled_from([None, "equal"])}
    ),
)
def test_scores_without_a_row_equal_those_of_a_batch_solve(seed, n, ridge, fit_intercept, others):
    X, y = rows_and_labels(seed, n)
    model = fitted(LeastSquaresClassifier(ridge, "gram", fit_intercept, **others), X, y)
    scores, Y = leave_one_out_scores(model, X, y), targets_of(model, y)
    for row, rest in enumerate(~np.eye(n, dtype=bool)):
        A, T, *means = weighted_centred(X[rest], Y[rest], np.ones(n - 1), fit_intercept)
        weights = np.linalg.solve(A.T @ A + np.diag(model.ridge_diagonal), A.T @ T)
        expected = (X[row] - means[0]) @ weights + means[1]
        np.testing.assert_allclose(scores[row], expected, atol=1e-8)


@settings(max_examples=25)
@given(data=st.data())
def test_after_any_changes_the_model_has_learnt_the_lessons_alone(data):
    X, _ = rows_and_labels(data.draw(st.integers(0, 99)), 12)
    book, kept = LessonBook(LeastSquaresClassifier(ridge=0.5)), {}
    for _ in range(data.draw(st.integers(1, 20))):
        row, label = data.draw(st.integers(0, 11)), data.draw(st.sampled_from("abcd"))
        if row not in kept:
            book.add(row, X[row], label)
        elif data.draw(st.booleans()):
            book.correct(row, label)
        else:
            book.remove(row)
            del kept[row]
            continue
        kept[row] = label
    assert {key: label for key, (_, label) in book.lessons.items()} == kept
    assert set(book.model.classes) == set(kept.values())
    if kept:
        model = fitted(LeastSquaresClassifier(ridge=0.5), X[[*kept]], [*kept.values()])
        assert onlinels.difference(book.model, model) < 1e-9


def test_wrong_labels_are_found_and_corrected():
    X, y = rows_and_labels(5, 60)
    wrong = {row: "abca"["abc".index(y[row]) + 1] for row in (7, 21, 40)}
    taught = [wrong.get(row, label) for row, label in enumerate(y)]
    book = book_of(X, taught, LeastSquaresClassifier(ridge=1.0, priors="equal"))
    found = book.suspects(3)
    assert {each.key: each.other_label for each in found} == {row: y[row] for row in wrong}
    assert [each.margin for each in found] == sorted(each.margin for each in found)
    for each in found:
        book.correct(each.key, each.other_label)
    model = fitted(LeastSquaresClassifier(ridge=1.0, priors="equal"), X, y)
    assert onlinels.difference(book.model, model) < 1e-9


def test_a_lone_label_is_no_suspect():
    rows = {"x": 1.0}, {"x": 9.0}, {"x": 1.1}
    for n in range(4):
        assert book_of(rows[:n], ["nut", "screw", "nut"][:n]).suspects() == []


def test_rows_learnt_before_count_and_the_given_model_is_left_alone():
    X, y = rows_and_labels(2)
    model = fitted(LeastSquaresClassifier(ridge=1.0), X, y)
    book = book_of(X[:1], ["c" if y[0] == "a" else "a"], model)
    assert [(each.key, each.other_label) for each in book.suspects()] == [(0, y[0])]
    assert (model.count, book.model.count) == (30, 31)


def test_lessons_of_images_are_arrays_or_dicts_whose_memory_may_be_used_again():
    images, labels = IMAGES[20:40], [int(label) for label in LABELS[20:40]]
    taught, book, frame = [7, *labels[1:]], LessonBook(network()), images[0].copy()
    for key, (image, label) in enumerate(zip(images, taught, strict=True)):
        frame[:] = image
        book.add(key, {"image": frame} if key % 3 else frame, label)
    assert (
        book.suspects()
        == book_of([{"image": each} for each in images], taught, network()).suspects()
    )
    book.correct(0, labels[0])
    book.remove(19)
    book.remove(18)
    model = fitted(network(), images[:18], labels[:18])
    assert onlinels.difference(book.model, model) < 1e-6


def test_bad_input_changes_nothing():
    book, arrays = book_of([{"x": 1.0}], ["nut"]), book_of(np.eye(6), "ababab")
    for call, error, message in (
        (lambda: book.add(0, {"x": 1.0}, "nut"), ValueError, "key is 0, which has a lesson"),
        (lambda: book.add(1.5, {"x": 1.0}, "nut"), TypeError, "key is of type float, expected"),
        (lambda: book.add("b", {"x": float("nan")}, "nut"), ValueError, "nan"),
        (lambda: book.add("b", {"x": 1.0}, None), ValueError, "y is None"),
        (lambda: book.correct(0, None), ValueError, "y is None"),
        (lambda: book.correct("b", "nut"), ValueError, "key is 'b', which has no lesson"),
        (lambda: book.remove("b"), ValueError, "key is 'b', which has no lesson"),
        (lambda: book.suspects(0), ValueError, "n=0"),
        (lambda: leave_one_out_scores(book.model, [{"x": 1.0}], ["cog"]), ValueError, "y holds"),
        (lambda: arrays.add("b", np.ones(5), "a"), ValueError, r"shape \(5,\), expected \(6,\)"),
        (lambda: arrays.add("b", np.ones(7), "a"), ValueError, r"shape \(7,\), expected \(6,\)"),
    ):
        assert_refused(call, [book, arrays], message, error, onlinels.dumps)


NO_REMOVALS = [
    (onlinels.StreamClassifier(), TypeError, "must be a LeastSquaresClassifier or"),
    (LeastSquaresClassifier, TypeError, "is the class LeastSquaresClassifier"),
    (HiddenLayer(3) | LeastSquaresClassifier(), ValueError, "is a pipeline, expected"),
    (LeastSquaresClassifier(half_life=9), ValueError, "forgets rows or cannot"),
    (LeastSquaresClassifier(1.0, "orthogonal"), ValueError, "forgets rows or cannot"),
    (ShallowConvClassifier.from_preset("digits"), ValueError, "fix_features"),
]


@pytest.mark.parametrize(("model", "error", "message"), NO_REMOVALS)
def test_models_that_cannot_unlearn_are_refused(model, error, message):
    with pytest.raises(error, match=message):
        LessonBook(model)
