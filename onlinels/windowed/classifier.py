"""WindowedClassifier: a classifier of windows that is fed one reading of the sensors at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from river import base

from onlinels.classifier import LeastSquaresClassifier
from onlinels.labels import Label, read_label, read_labels
from onlinels.names import Name
from onlinels.saving.files import Savable
from onlinels.settings import check_choice, check_count
from onlinels.threads import CopyableLock
from onlinels.windowed.answers import WindowedAnswers
from onlinels.windowed.following import Follower, Labelled, ReadingState
from onlinels.windowed.readings import Readings, read_reading, read_readings
from onlinels.windowed.sliding import LABEL_RULES, UNLABELLED
from onlinels.windowed.spacing import make_spacing
from onlinels.windowed.together import learn_windows
from onlinels.wrapping import planned


class WindowedClassifier(WindowedAnswers, Savable):
    """Classify sliding windows of sensor readings that come one at a time.

    A reading is a dict with a number for every channel. The wrapped classifier sees
    {"window": array (window, n_channels)}: the samples up to this reading, channels sorted by name.
    It learns the first full window, and one after every `hop` further samples; a window that is due
    but has no label leaves it to the next one that has.

    Parameters
    ----------
    classifier : classifier or pipeline
        It takes {"window": array}, such as ``WindowFeatures() | LeastSquaresClassifier()``.
    window, hop : int
        Samples in a window, and the least number from one that is learnt to the next.
    timestamp : hashable, optional
        Name of the entry of readings with their time: a number of seconds, or a datetime. Without
        it readings are taken as evenly spaced, each as a sample.
    sample_rate : float, optional
        Samples a second onto which readings are resampled, on the straight line between them.
        Without it, readings with times that are not regular to a tenth of their spacing are
        refused.
    largest_gap : float
        Sampling periods between readings over which that line is drawn, at least 1. After a longer
        gap the window starts afresh.
    label_rule : "last", "majority" or "unanimous"
        The label of a window in which labels change: that of its last sample, which is what
        `predict_one` is asked for; the most frequent; or none, so that it is not learnt. A
        resampled sample has the label of the reading that completes it.

    Notes
    -----
    Nothing but the last `window` samples is held, and the windows depend on the readings and labels
    alone: `learn_many` equals `learn_one` in a loop. `predict_one` answers for the window that ends
    in the reading (resampled: in the last sample up to it) and changes nothing; `predict_many`
    takes its readings as following one another. The channels are those of the first reading that
    is taken in.
    A reading without a label is taken in by `observe_one`, and no window that ends in it is learnt;
    where another recording begins, call `restart`.

    A reading costs ``8 window n_channels`` bytes that are copied. Several windows at a time are
    learnt together if all steps are this package's features and least-squares classifiers, else
    one by one, in a copy of the classifier. For one window only steps of other packages are
    copied, so a scaler of river's costs a copy of its statistics. Whatever is raised while it
    learns, by an interrupt too: what is held and the wrapped classifier, copied parts included, are
    all as before or all as after.

    Examples
    --------
    >>> model = WindowedClassifier(LeastSquaresClassifier(), window=3, hop=1)
    >>> for k in range(40):
    ...     model.learn_one({"ax": k % 2, "ay": 1.0}, "shaken" if k % 2 else "not")
    >>> model.predict_one({"ax": 0.0, "ay": 1.0}), model.channels, model.n_windows
    ('not', ('ax', 'ay'), 38)
    """

    def __init__(
        self,
        classifier: base.Classifier,
        window: int = 64,
        hop: int = 16,
        timestamp: Name | None = None,
        sample_rate: float | None = None,
        largest_gap: float = 4.0,
        label_rule: str = "last",
    ) -> None:
        if not isinstance(classifier, base.Classifier):
            raise TypeError(
                f"classifier is of type {type(classifier).__name__}, expected a classifier, or a "
                'pipeline that ends in one, which takes {"window": array}. Pass one.'
            )
        check_choice("label_rule", label_rule, LABEL_RULES)
        self.classifier = planned(classifier)
        self.window = check_count("window", window, 1)
        self.hop = check_count("hop", hop, 1)
        self.timestamp = timestamp
        self.sample_rate = sample_rate
        self.largest_gap = largest_gap
        self.label_rule = label_rule
        spacing = make_spacing(timestamp, sample_rate, largest_gap)
        self._follower = Follower(self.window, self.hop, spacing, label_rule)
        self._state = ReadingState()
        self._n_windows = 0
        self._alone = CopyableLock()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": LeastSquaresClassifier(), "window": 1, "hop": 1}

    def _unit_test_skips(self) -> set[str]:
        # In these, channels come and go: such readings are refused.
        return {
            "check_emerging_features",
            "check_disappearing_features",
            "check_radically_disappearing_features",
            "check_learn_many_matches_learn_one",
        }

    @property
    def _multiclass(self) -> bool:
        return bool(self.classifier._multiclass)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"classifier"}

    @property
    def channels(self) -> tuple[Name, ...]:
        """Names of the channels, in the order of a window's columns; none before a reading."""
        return self._state.columns.names

    @property
    def n_windows(self) -> int:
        """Number of windows learnt."""
        return self._n_windows

    def restart(self) -> None:
        """Let another recording begin: no window holds readings from before and after.

        Examples
        --------
        >>> model = WindowedClassifier(LeastSquaresClassifier(), window=2, hop=1)
        >>> for value in (1.0, 2.0):
        ...     model.learn_one({"ax": value}, "walk")
        ...     model.restart()
        >>> model.n_windows
        0
        """
        with self._alone.to_change(self):
            self._state = self._state.restarted()

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Take in one reading with its label, and learn the windows that are due with it.

        Parameters
        ----------
        x : mapping
            Channels to numbers, and `timestamp` to the time if it is set.
        y : hashable

        Raises
        ------
        TypeError
            If a value is no number, or the time neither a number nor a date.
        ValueError
            If a value is missing or not finite, a channel is missing or new, the time is not after
            the one before or irregular without `sample_rate`, or the wrapped classifier refuses
            the window. Nothing has changed then.
        """
        with self._alone.to_change(self):
            self._learn(read_reading(x, self.timestamp), [read_label(y)])

    def learn_many(self, X: Any, y: Any) -> None:
        """Take in readings that follow one another, as by `learn_one` in a loop, all or none.

        Parameters
        ----------
        X : array (n, n_columns), frame, or list of dicts
        y : array, series or list of n labels

        Raises
        ------
        TypeError, ValueError
            As `learn_one`; nothing has changed then.
        """
        with self._alone.to_change(self):
            readings = read_readings(X, self.timestamp)
            self._learn(readings, read_labels(y, len(readings.values)))

    def observe_one(self, x: Mapping[Any, Any]) -> None:
        """Take in one reading without a label and learn nothing; errors as `learn_one`.

        Examples
        --------
        >>> model = WindowedClassifier(LeastSquaresClassifier(), window=2, hop=1)
        >>> model.observe_one({"ax": 1.0})
        >>> model.learn_one({"ax": 2.0}, "walk")
        >>> model.n_windows
        1
        """
        with self._alone.to_change(self):
            self._learn(read_reading(x, self.timestamp), [UNLABELLED])

    def _learn(self, readings: Readings, labels: list[Label]) -> None:
        state = self._state
        due: list[Labelled] = []
        # Of the states only the last is held: each has a window of its own.
        for latest, windows in self._follower.follow(state, readings, labels):
            state = latest
            due.extend(windows)
        changes = {"_state": state, "_n_windows": self._n_windows + len(due)}
        if due:
            learn_windows(self.classifier, due, lambda commit: commit.set(self, **changes))
        else:
            vars(self).update(changes)
