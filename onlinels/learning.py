"""The learning half of the network: rows in and out, and the warm-up that fixes the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onlinels.answering import NetworkAnswers
from onlinels.commit import Commit
from onlinels.examples import Examples, split
from onlinels.features.images import read_image
from onlinels.fixed import FixedNetwork
from onlinels.warm_up import WarmUp


class NetworkLearning(NetworkAnswers):
    """Learn images, or hold them until there are enough to fix the features."""

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one image, {"image": array} or a dict of pixels; see `learn_many`."""
        with self._alone.to_change(self):
            images = read_image(x, self._given_shape).values
            self._learn([self._examples(images, [y], w, t)])

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn a mini-batch of images, with the same result as learning them one by one.

        Parameters
        ----------
        X : ndarray (n, height, width[, n_channels]), or rows of pixels if `image_shape` is set
        y : array, series or list of n labels
        w : float, or array, series or list of n floats, optional
            Weights, at least 0; 1 by default.
        t : number or datetime, or array, series or list of n of them, optional
            Times of the images, for classifiers with a `half_life`.

        Raises
        ------
        TypeError, ValueError
            If the input cannot be learnt; nothing has changed then.
        """
        with self._alone.to_change(self):
            self._learn([self._batch(X, y, w, t)])

    def _learn(self, batches: Sequence[Examples]) -> None:
        """Learn or hold batches that were checked, or nothing of them if one is refused."""
        commit = Commit()
        commit.set(self, _image_shape=batches[0].images.shape[1:])
        if self._fixed is not None:
            self._fixed.learn(batches, commit)
        elif self._waiting.count + sum(map(len, batches)) >= self.warm_up:
            self._fix(batches, commit)
        elif len(batches) > 1:
            commit.set(self, _waiting=self._waiting.holding(batches))
            commit.make()
        else:
            self._waiting.hold(batches[0], commit)

    def _fix(self, batches: Sequence[Examples], commit: Commit) -> None:
        """Fix the features from what is held and as much of the batches as is wanted; learn all."""
        n_examples = max(self.warm_up if batches else 0, self._waiting.count)
        first, rest = split([*self._waiting.batches, *batches], n_examples)
        parts = (self.preprocessing, self.features, self.hidden, self.classifier.clone())
        try:
            fixed = FixedNetwork.from_examples(*parts, first)
        except ValueError as error:
            if not self._waiting.count or n_examples < 2:
                raise
            raise ValueError(f"{error} {self._remedy()}") from error
        fixed.learn_anew(rest)
        commit.set(self, _fixed=fixed, _waiting=WarmUp())
        commit.make()

    def _remedy(self) -> str:
        """Say what to do about images that are refused at the edge, those held among them."""
        return (
            f"{self._waiting.count} of these images were held for the warm-up and stay held: if "
            "the cause is theirs, they cannot be learnt with these settings whatever follows. "
            "Start a new model with other settings (ridge, accumulator, scale, dtype), and learn "
            "its images from the first."
        )

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one image out again; see `unlearn_many`."""
        with self._alone.to_change(self):
            images = read_image(x, self._given_shape).values
            self._network.unlearn(self._examples(images, [y], w))

    def unlearn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Take images out of what was learnt, as `LeastSquaresClassifier.unlearn_many` does.

        Input weights that were made from them in the warm-up stay as they are. The activations of
        the whole batch are held: take many images out in mini-batches.

        Raises
        ------
        TypeError, ValueError
            As there, or if the features are not fixed yet; nothing has changed then.
        """
        with self._alone.to_change(self):
            self._network.unlearn(self._batch(X, y, w))

    def fix_features(self) -> None:
        """Fix what depends on data now, from the images held so far, unless it is fixed already.

        Useful at the end of a stream that is shorter than the warm-up.

        Raises
        ------
        ValueError
            If fewer than two images have come.
        """
        with self._alone.to_change(self):
            if self._fixed is None:
                self._fix([], Commit())
