"""Between broker and learner: no labelled row is learnt twice or lost, whenever the process dies.

What holds, and why

- **Acknowledged means on disk.** The broker keeps every message of quality of service 1 until it is
  acknowledged, and sends it again when a client with the same name comes back (a persistent
  session). So messages are handled as they come, then the state with all their effects is saved,
  and only then are they acknowledged, in the order in which they came. A process that dies
  - before the save is over: finds the old state, and is sent all messages since;
  - between save and acknowledgements: finds the new state, and is sent some of its messages again,
    which are duplicates by their keys and change nothing.
  A process that outlives its connection keeps the effects and forgets the acknowledgements.
- **No row twice, none lost.** Settled keys are part of the state, so a label counts once, however
  often it or its reading comes. (A row can be lost when more than 10,000 others wait for their
  labels, and is counted then: see `learner.Join`.)
- **Weights as without a kill.** The state is a pure function of the messages in their order
  (`learner`), and Mosquitto keeps one queue for each client and sends it again in the same order.
  MQTT promises order only within a topic: behind a broker that mixes topics otherwise, weights
  agree as those of a batch solve do.
- **Predictions at least once.** A prediction is published at once, and is part of the state until
  the broker has acknowledged it; what is left is sent after a restart. Readers take the key: copies
  are alike (to the label's last doubt, where a broker changed the order of topics).
- **No deadlock.** The window, after which the state is saved, is what this client lets the broker
  send unacknowledged (the receive maximum of MQTT 5, which takes precedence over Mosquitto's
  `max_inflight_messages` of 20; Mosquitto 2.0.11 sends more, which waits here). A broker that sends
  less at a time is met by saving whenever nothing has come for 20 ms: it costs time, not the
  stream. So rows of a slow stream are safe 20 ms after they came, and the window bounds the work
  that is done again after a kill.

What it takes

- Publishers use quality of service 1, and number their rows (`learner`).
- The learner has been there once: before it first subscribes the broker keeps nothing for it.
- One learner for one state file, and one client id and prefix, together the name at the broker.
  Two clients with one name would take the connection, and rows, from each other; Mosquitto 2.0.11
  does not tell them why. What waits for one prefix waits while another is used.
- The broker must not run full: Mosquitto silently drops what a client has waiting past
  `max_queued_messages` (1,000 by default; 0 in `mosquitto.conf` here: no limit), and forgets
  clients after `persistent_client_expiration`, if that is set, or the expiry asked for here.
- A broker that must outlive its own kills needs `persistence true` with a short
  `autosave_interval`: Mosquitto writes its queue now and then, not message by message. A session
  that it has lost is noticed and said.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqtt_sensors.learner import Key, Learner, Topics, payload_of, read_message

WINDOW = 200
MOST_AT_ONCE = 100
"""Messages that are handled before it is looked whether to stop."""
IDLE = 0.02
"""Seconds without a message after which the state is saved."""
RETRY = 0.5
"""Seconds between attempts to connect again."""
PATIENCE = 2.0
"""Seconds that the broker may take to acknowledge the last predictions."""
EXPIRY = 7 * 24 * 3600
"""Seconds for which the broker keeps what comes while the learner is away."""
LOST_SESSION = (
    "The broker has no session of this client any more: what came while it was away is lost."
)
OLDER_SESSION = (
    "The broker knows this client, but there is no saved state: what it has learnt before is lost."
)


class Session:
    """One learner at one broker, in one thread.

    Parameters
    ----------
    learner : Learner
        New, or loaded.
    state : Path
        Where the learner is saved.
    topics : Topics
    client_id : str
        With the prefix, the name under which the broker keeps messages; the same after a restart.
    window : int
        Messages between two saves, at most 65,535.
    known : bool
        Whether the learner comes from a saved state.
    """

    def __init__(
        self,
        learner: Learner,
        state: Path,
        topics: Topics,
        client_id: str,
        *,
        window: int = WINDOW,
        known: bool = False,
    ) -> None:
        self.learner = learner
        self.notes: list[str] = []
        self.ready = False
        self._last_handled = time.monotonic()
        self._state = state
        self._topics = topics
        self._window = window
        self._known = known
        self._inbox: deque[MQTTMessage] = deque()
        self._owed: list[int] = []
        self._sent: dict[int, Key] = {}
        # The broker goes on with old subscriptions: under the name of another prefix, not this one.
        name = f"{client_id}/{topics.prefix}"
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTv5, manual_ack=True
        )
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.on_publish = self._on_publish

    def connect(self, host: str, port: int) -> None:
        """Open the connection.

        Raises
        ------
        OSError
            If no broker answers.
        """
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = self._window
        properties.SessionExpiryInterval = EXPIRY
        self._client.connect(host, port, clean_start=False, properties=properties)

    def step(self) -> None:
        """Wait a moment for a message, handle what came, and save when it is time to.

        Raises
        ------
        ConnectionError
            If the broker refuses this client or its subscriptions.
        OSError
            If the state cannot be saved; nothing is acknowledged then.
        """
        # Paho may have read thousands at once; the broker waits until they are handled.
        if not self._inbox and not self._turn(IDLE):
            self._connect_again()
            return
        for _ in range(min(len(self._inbox), MOST_AT_ONCE)):
            self._handle(self._inbox.popleft())
            if len(self._owed) >= self._window:
                self._save_and_acknowledge()
        if self._owed and self.quiet_for(IDLE):
            self._save_and_acknowledge()

    def quiet_for(self, seconds: float) -> bool:
        """Return whether there has been nothing to handle for so long."""
        return not self._inbox and time.monotonic() - self._last_handled >= seconds

    def close(self) -> None:
        """Save, acknowledge and leave; the broker keeps what comes from now on."""
        deadline = time.monotonic() + PATIENCE
        while self._sent and time.monotonic() < deadline and self._turn(IDLE):
            pass
        self._save_and_acknowledge()
        self._client.disconnect()
        while time.monotonic() < deadline and self._turn(IDLE):
            pass

    def _turn(self, seconds: float) -> bool:
        """Read and write once; return whether the connection is alive."""
        return self._client.loop(seconds) == 0

    def _connect_again(self) -> None:
        # Of the old connection: the broker sends again what is not acknowledged. What was handled
        # and not saved is a duplicate then; its effect is in memory, and in the next save.
        self._inbox.clear()
        self._owed.clear()
        time.sleep(RETRY)
        try:
            self._client.reconnect()
        except OSError:
            # The next step tries again.
            return

    def _handle(self, message: MQTTMessage) -> None:
        try:
            content = read_message(message.topic, message.payload, self._topics)
        except ValueError as error:
            self.learner.refuse(error)
        else:
            key = self.learner.handle(content)
            if key is not None:
                self._publish(key)
        if message.qos > 0:
            self._owed.append(message.mid)
        self._last_handled = time.monotonic()

    def _publish(self, key: Key) -> None:
        payload = payload_of(key, label=self.learner.outbox[key])
        sent = self._client.publish(self._topics.predictions, payload, qos=1)
        self._sent[sent.mid] = key

    def _save_and_acknowledge(self) -> None:
        self.learner.save(self._state)
        owed, self._owed = self._owed, []
        for number in owed:
            self._client.ack(number, 1)

    def _on_connect(self, client: Client, _data: Any, flags: Any, reason: Any, *_: Any) -> None:
        if reason.is_failure:
            raise ConnectionError(f"the broker refuses this client: {reason}")
        if flags.session_present != self._known:
            self.notes.append(LOST_SESSION if self._known else OLDER_SESSION)
        self._known = True
        # Paho itself repeats what this process has published.
        published = set(self._sent.values())
        for key in [key for key in self.learner.outbox if key not in published]:
            self._publish(key)
        client.subscribe([(self._topics.readings, 1), (self._topics.labels, 1)])

    def _on_subscribe(self, _client: Any, _data: Any, _number: int, reasons: Any, *_: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            raise ConnectionError(f"the broker refuses the subscription: {reasons}")
        # A state on disk means that the broker keeps messages for this client.
        self.learner.save(self._state)
        self.ready = True

    def _on_message(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        self._inbox.append(message)

    def _on_publish(self, _client: Any, _data: Any, number: int, reason: Any, *_: Any) -> None:
        key = self._sent.pop(number, None)
        if key is not None:
            self.learner.outbox.pop(key, None)
        if reason.is_failure:
            self.notes.append(f"The broker refused a prediction: {reason}")
