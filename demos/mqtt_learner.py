"""Predict every reading, learn it when its label is there: a pure function of the messages.

The learner knows nothing of networks, files or clocks. Its whole state follows from the messages
handled so far, in their order, and duplicates change nothing but their count. Nor does a save
change anything: weights are solved after every row, so that it finds nothing to solve. So a learner
that was saved, and is handed the messages after that save again, becomes bit for bit what it was.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mqtt_join import MOST_GAPS, MOST_WAITING, Join
from mqtt_messages import Key, Label, LabelValue, Reading
from mqtt_model import classifier_of, make_model

RECENT = 500
"""Rows that the recent accuracy looks back on."""


LONGEST_REFUSAL = 200
"""Characters that are kept of a refusal, which quotes what was sent."""


@dataclass(frozen=True)
class Predicted:
    """A reading that waits for its label, and what was predicted of it."""

    values: dict[str, float]
    label: LabelValue | None


class Learner:
    """All that must be on disk before a message may be acknowledged.

    Parameters
    ----------
    most_waiting, most_gaps : int
        Bounds of `Join`.

    Notes
    -----
    `outbox` holds predictions until the broker has acknowledged them. It is saved with the rest, so
    that what was not sent before an end is sent after it.
    """

    def __init__(self, most_waiting: int = MOST_WAITING, most_gaps: int = MOST_GAPS) -> None:
        self.model = make_model()
        self.join: Join[Predicted] = Join(most_waiting, most_gaps)
        self.outbox: dict[Key, LabelValue | None] = {}
        self.recent: deque[bool] = deque(maxlen=RECENT)
        self.learnt = 0
        self.right = 0
        self.duplicates = 0
        self.refused = 0
        self.last_refusal = ""

    def handle(self, message: Reading | Label) -> Key | None:
        """Take a message in; return the key of a new prediction, which is in `outbox`.

        What the model refuses is counted: whoever raised would be sent the same message again.
        """
        try:
            if isinstance(message, Reading):
                return self._handle_reading(message)
            self._handle_label(message)
        except ValueError as error:
            self.refuse(error)
        return None

    def refuse(self, error: ValueError) -> None:
        """Count a message that nobody can learn from."""
        self.refused += 1
        self.last_refusal = str(error)[:LONGEST_REFUSAL]

    def _handle_reading(self, reading: Reading) -> Key | None:
        key = reading.key
        if not self.join.is_new_reading(key):
            self.duplicates += 1
            return None
        # First of all, as the model may refuse it.
        predicted = Predicted(reading.values, self.model.predict_one(reading.values))
        self.outbox[key] = predicted.label
        label = self.join.add_reading(key, predicted)
        if label is not None:
            self._learn(predicted, label)
        return key

    def _handle_label(self, label: Label) -> None:
        if not self.join.is_new_label(label.key):
            self.duplicates += 1
            return
        predicted = self.join.add_label(label.key, label.value)
        if predicted is not None:
            self._learn(predicted, label.value)

    def _learn(self, predicted: Predicted, label: LabelValue) -> None:
        self.model.learn_one(predicted.values, label)
        self.learnt += 1
        self.right += predicted.label == label
        self.recent.append(predicted.label == label)
        # A save solves for weights, and when they are solved decides about the last bits of later
        # ones: those of few rows are followed from the last solution, those of many solved anew.
        _ = classifier_of(self.model).output_weights
