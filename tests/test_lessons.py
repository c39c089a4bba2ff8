"""Lessons by key: corrected and removed exactly, and those that the others contradict."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onlinels
from onlinels import LeastSquaresClassifier, ShallowConvClassifier
from onlinels.lessons import LessonBook, leave_one_out_scores
from support.digits_network import IMAGES, LABELS


def rows_and_labels(seed, n=30, n_features=4):
    """Return rows of three classes about their means."""
    random = np.random.default_rng(seed)
    labels = random.choice(list("abc"), n)
    means = dict(zip("abc", random.normal(size=(3, n_features)), strict=True))
    return np.stack([means[each] for each in labels]) + random.normal(
        0, 0.4, (n, n_features)
    ), labels.tolist()


def network():
    return ShallowConvClassifier.from_preset(
        "digits", filters="hand-designed", input_weights="gaussian", n_hidden=20, ridge=1.0
    )


@settings(max_examples=25)
@given(
    seed=st.integers(0, 999),
    n=st.integers(3, 30),
    intercept=st.booleans(),
    scaling=st.sampled_from([None, "standard"]),
    priors=st.sampled_from([None, "equal"]),
    ridge=st.sampled_from([0.01, 1.0, 30.0]),
)
def test_scores_without_a_row_equal_those_of_a_batch_solve(
    seed, n, intercept, scaling, priors, ridge
):
    X, y = rows_and_labels(seed, n)
    model = LeastSquaresClassifier(ridge, "gram", intercept, priors=priors, scaling=scaling)
    model.learn_many(X, y)
    scores = leave_one_out_scores(model, X, y)
    penalty = np.diag(model.ridge_diagonal)
    for row in range(n):
        rest = np.arange(n) != row
        A, Y = X[rest], np.array(y)[rest, None] == np.array(model.classes)
        means = (A.mean(0), Y.mean(0)) if intercept else (0.0, 0.0)
        A, Y = A - means[0], Y - means[1]
        expected = (X[row] - means[0]) @ np.linalg.solve(A.T @ A + penalty, A.T @ Y) + means[1]
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
            kept[row] = label
        elif data.draw(st.booleans()):
            book.correct(row, label)
            kept[row] = label
        else:
            book.remove(row)
            del kept[row]
    assert {key: label for key, (_, label) in book.lessons.items()} == kept
    assert set(book.model.classes) == set(kept.values())
    if kept:
        model = LeastSquaresClassifier(ridge=0.5)
        model.learn_many(X[[*kept]], [*kept.values()])
        assert onlinels.difference(book.model, model) < 1e-9


def test_wrong_labels_are_found():
    X, y = rows_and_labels(5, 60)
    book, wrong = LessonBook(LeastSquaresClassifier(ridge=1.0, priors="equal")), [7, 21, 40]
    for row, label in enumerate(y):
        book.add(f"photo {row}", X[row], "abca"["abc".index(label) + 1] if row in wrong else label)
    found = book.suspects(3)
    assert {each.key for each in found} == {f"photo {row}" for row in wrong}
    assert [each.margin for each in found] == sorted(each.margin for each in found)
    for each in found:
        row = int(each.key.split()[1])
        assert each.other_label == y[row]
        book.correct(each.key, each.other_label)
    model = LeastSquaresClassifier(ridge=1.0)
    model.learn_many(X, y)
    model.priors = "equal"
    assert onlinels.difference(book.model, model) < 1e-9


def test_a_single_lesson_and_a_lone_label_are_no_suspects():
    book = LessonBook(LeastSquaresClassifier(ridge=1.0))
    assert book.suspects() == []
    book.add("a", {"x": 1.0}, "nut")
    assert book.suspects() == []
    book.add("b", {"x": 9.0}, "screw")
    book.add("c", {"x": 1.1}, "nut")
    assert book.suspects() == []


def test_lessons_of_images():
    images = np.random.default_rng(0).integers(0, 16, (8, 8, 8)) + np.eye(8, dtype=int) * 90
    labels = list("aaaabbbb")
    images[4:] = images[4:, ::-1]
    book = LessonBook(network())
    for key, (image, label) in enumerate(zip(images, "aaabbbbb", strict=True)):
        book.add(key, image, label)
    (found,) = book.suspects()
    assert (found.key, found.other_label) == (3, "a")
    book.correct(3, "a")
    model = network()
    model.learn_many(images, labels)
    assert onlinels.difference(book.model, model) < 1e-6


def test_rows_learnt_before_count_and_the_given_model_is_left_alone():
    X, y = rows_and_labels(2)
    model = LeastSquaresClassifier(ridge=1.0)
    model.learn_many(X, y)
    book = LessonBook(model)
    wrong = next(label for label in "abc" if label != y[0])
    book.add("again", X[0], wrong)
    assert [(each.key, each.other_label) for each in book.suspects()] == [("again", y[0])]
    assert (model.count, book.model.count) == (30, 31)


@pytest.mark.parametrize("copied", [lambda x: onlinels.loads(onlinels.dumps(x)), copy.deepcopy,
                                    lambda x: pickle.loads(pickle.dumps(x))],
                         ids=["saved", "copied", "pickled"])  # fmt: skip
def test_a_copy_of_a_book_is_independent(copied):
    book = LessonBook(LeastSquaresClassifier(ridge=1.0))
    for key, x in (("a", {"x": 1.0}), (("b", 2), {"x": 2.0}), ("c", {"x": 1.5})):
        book.add(key, x, "nut")
    other = copied(book)
    assert dict(other.lessons) == dict(book.lessons)
    other.remove("a")
    assert (len(other.lessons), len(book.lessons)) == (2, 3)
    assert (other.model.count, book.model.count) == (2, 3)


def refused(book):
    return [
        (lambda: book.add("a", {"x": 1.0}, "nut"), ValueError, "key is 'a', which has a lesson"),
        (lambda: book.add(1.5, {"x": 1.0}, "nut"), TypeError, "key is of type float, expected"),
        (lambda: book.add("b", {"x": float("nan")}, "nut"), ValueError, "nan"),
        (lambda: book.add("b", {"x": 1.0}, None), (TypeError, ValueError), "y is None"),
        (lambda: book.correct("a", None), (TypeError, ValueError), "y is None"),
        (lambda: book.correct("b", "nut"), ValueError, "key is 'b', which has no lesson"),
        (lambda: book.remove("b"), ValueError, "key is 'b', which has no lesson"),
        (lambda: book.suspects(0), ValueError, "n=0"),
        (lambda: leave_one_out_scores(book.model, [{"x": 1.0}], ["cog"]), ValueError, "y holds"),
    ]


def test_bad_input_changes_nothing():
    book = LessonBook(LeastSquaresClassifier(ridge=1.0))
    book.add("a", {"x": 1.0}, "nut")
    before = onlinels.dumps(book)
    for call, kind, message in refused(book):
        with pytest.raises(kind, match=message):
            call()
    assert onlinels.dumps(book) == before


def test_a_row_whose_memory_is_used_again_stays():
    book, frame = LessonBook(network()), np.arange(64.0).reshape(8, 8)
    book.add("a", frame, "up")
    book.add("b", {"image": frame}, "up")
    frame[:] = 1.0
    book.add("c", frame, "flat")
    book.remove("a")
    book.remove("b")
    model = network()
    model.learn_one(frame, "flat")
    assert book.model.classes == ("flat",)
    assert onlinels.difference(book.model, model) < 1e-6


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: onlinels.StreamClassifier(), TypeError, "must be a LeastSquaresClassifier or"),
        (lambda: LeastSquaresClassifier, TypeError, "is the class LeastSquaresClassifier"),
        (lambda: LeastSquaresClassifier(half_life=9), ValueError, "forgets rows or cannot"),
        (lambda: LeastSquaresClassifier(1.0, "orthogonal"), ValueError, "forgets rows or cannot"),
        (lambda: ShallowConvClassifier.from_preset("digits"), ValueError, "fix_features"),
    ],
    ids=["stream", "class", "forgetting", "orthogonal", "warm-up"],
)
def test_models_that_cannot_unlearn_are_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        LessonBook(make())


def test_arrays_of_lessons_have_one_shape():
    random = np.random.default_rng(0)
    book = LessonBook(LeastSquaresClassifier(ridge=1.0))
    for key in range(8):
        book.add(key, random.random(6), "ab"[key % 2])
    for size in (5, 7):
        with pytest.raises(
            ValueError, match=r"shape \(., ?\), expected \(6,\) as in other lessons"
        ):
            book.add("other", random.random(size), "a")
    assert len(book.lessons) == book.model.count == 8
    book.remove(3)


def test_images_of_lessons_may_be_arrays_and_dicts():
    book, dicts = LessonBook(network()), LessonBook(network())
    for key, image in enumerate(IMAGES[20:40]):
        label = int(LABELS[20 + key])
        book.add(key, {"image": image} if key % 3 else image, label)
        dicts.add(key, {"image": image}, label)
    assert book.suspects() == dicts.suspects()
