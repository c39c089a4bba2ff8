"""The learning half of the network: rows in and out, and the warm-up that fixes the features."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from onlinels.answering import NetworkAnswers
from onlinels.examples import Examples
from onlinels.features.images import read_image
from onlinels.fixed import FixedNetwork
from onlinels.warm_up import WarmUp


class NetworkLearning(NetworkAnswers):
    """Learn images, or hold them until there are enough to fix the features."""

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one image, {"image": array} or a dict of pixels; see `learn_many`."""
        images = read_image(x, self._given_shape).values
        self._learn(self._examples(images, [y], w, t))

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
        self._learn(self._batch(X, y, w, t))

    def _learn(self, examples: Examples) -> None:
        before = self._image_shape
        self._image_shape = examples.images.shape[1:]
        try:
            if self._fixed is None:
                examples = self._warmed_up(examples)
            if self._fixed is not None and len(examples):
                self._fixed.learn(examples)
        except ValueError:
            self._image_shape = before
            raise

    def _warmed_up(self, examples: Examples) -> Examples:
        """Hold what is still wanted, fix the features if that was the last, and return the rest."""
        wanted = self.warm_up - self._waiting.count
        if len(examples) < wanted:
            self._waiting.hold(examples)
            return examples.part(slice(0))
        before = copy.deepcopy(self._waiting)
        try:
            if wanted > 0:
                self._waiting.hold(examples.part(slice(wanted)))
            self.fix_features()
        except ValueError:
            self._waiting = before
            raise
        return examples.part(slice(max(0, wanted), None))

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one image out again; see `unlearn_many`."""
        images = read_image(x, self._given_shape).values
        self._network.unlearn(self._examples(images, [y], w))

    def unlearn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Take images out of what was learnt, as `LeastSquaresClassifier.unlearn_many` does.

        Input weights that were made from them in the warm-up stay as they are.

        Raises
        ------
        TypeError, ValueError
            As there, or if the features are not fixed yet; nothing has changed then.
        """
        self._network.unlearn(self._batch(X, y, w))

    def fix_features(self) -> None:
        """Fix what depends on data now, from the images held so far, unless it is fixed already.

        Useful at the end of a stream that is shorter than the warm-up.

        Raises
        ------
        ValueError
            If fewer than two images have come.
        """
        if self._fixed is None:
            parts = (self.preprocessing, self.features, self.hidden, self.classifier.clone())
            self._fixed = FixedNetwork.from_examples(*parts, self._waiting.batches)
            self._waiting = WarmUp()
