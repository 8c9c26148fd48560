"""A term held through `spindle agent`: a file to copy."""

import http.client
import json
import os
import threading
import time

from google.cloud.spanner_v1 import param_types

FENCE = "SELECT 1 FROM locktable WHERE name = @lock AND token = @timestamp AND writer = @writer"
TYPES = {"lock": param_types.STRING, "timestamp": param_types.TIMESTAMP, "writer": param_types.STRING}


class Fenced(Exception):
    """Another program leads, or nobody."""


def check(transaction, term):
    """Fails unless the term is still the lock's; the transaction commits before the next one begins, or not at all."""
    params = {name: term["fence"][name] for name in TYPES}
    if not list(transaction.execute_sql(FENCE, params=params, param_types=TYPES)):
        raise Fenced(f"token {term['token']} is superseded")


class Leader:
    """Contends for a lock for good, in two threads of its own."""

    def __init__(self, lock, id, agent=os.environ.get("SPINDLE_AGENT", "127.0.0.1:9465")):
        self.agent, self.claim, self.held = agent, None, None
        self.wanted = {"locks": [lock], "id": id, "lease": "4s", "heartbeat_timeout": "2s"}
        for work, pause in (self._follow, 0.2), (self._beat, 0.5):
            threading.Thread(target=self._repeat, args=(work, pause), daemon=True).start()

    def term(self):
        """Returns the term that is held now, by the clock that counts suspended time; or None."""
        held = self.held
        is_held = held and time.clock_gettime_ns(time.CLOCK_BOOTTIME) < int(held["deadline"]["boottime_ns"])
        return held if is_held else None

    def _repeat(self, work, pause):
        while True:
            try:
                work()
            except (OSError, ValueError, http.client.HTTPException) as error:
                print("agent:", error)
            time.sleep(pause)

    def _follow(self):
        # However the stream ends, nothing is held until a new one says so.
        try:
            event = ""
            for line in self._ask("/v1/lead", self.wanted):
                field, _, value = line.decode().strip().partition(": ")
                if field == "event":
                    event = value
                elif field == "data":
                    data = json.loads(value)
                    self.claim = data.get("claim", self.claim)
                    self.held = {**(self.held or {}), **data} if event in ("gained", "renewed") else None
        finally:
            self.held = self.claim = None

    def _beat(self):
        # The agent can't tell a stopped process by its connection.
        if claim := self.claim:
            self._ask(f"/v1/claims/{claim}/heartbeat", {}).read()

    def _ask(self, path, body):
        connection = http.client.HTTPConnection(self.agent)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"{answer.status} {answer.read().decode()}")
        return answer
