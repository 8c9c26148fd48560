"""Locks and leader election on Cloud Spanner, through `spindle agent` on the same host."""

import atexit
import contextlib
import http.client
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
import weakref
from datetime import datetime
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

from ._http import ANSWER_MAX, SILENCE_MAX, AgentError, Place, answer

__all__ = ["Agent", "AgentError", "Fenced", "NotHeld", "Term"]

# Linux alone has the clock that counts suspended time.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_FIELD = "boottime_ns" if hasattr(time, "CLOCK_BOOTTIME") else "monotonic_ns"
_PAUSE_MIN, _PAUSE_MAX = 0.05, 5.0
# So long a client that lets go waits for the answer to what it asked before, in seconds. A test of that waits longer.
_OPEN_MAX = 2.0
# How soon a wait notices that the term is over, in seconds.
_LOOKS_EACH = 0.05
# What no repetition cures.
_FINAL = ("bad_request", "no_such_path", "no_such_method", "not_json", "foreign_host")


class Fenced(Exception):
    """Another program leads, or nobody: the transaction must not commit."""


class NotHeld(Exception):
    """The term is over, or of another process; or the agent is closed."""


def _now() -> int:
    return time.clock_gettime_ns(_CLOCK)


class Term:
    """One hold on a lock, with a token that only grows."""

    def __init__(self, told: Dict[str, Any]):
        self.lock: str = told["lock"]
        self.token = int(told["token"])
        self.fence: Dict[str, str] = told["fence"]
        self._deadline = int(told["deadline"][_FIELD])
        # No lock guards it: a signal's SystemExit may leave one locked that the end of the term needs.
        self._is_over = False
        self._pid = os.getpid()

    def is_held(self) -> bool:
        """True until the deadline; after a fork in the process that asked alone. Ask before each step of the work."""
        return os.getpid() == self._pid and not self._is_over and _now() < self._deadline

    def wait(self, seconds: float) -> bool:
        """Waits for so long, or until the term is over. True if it is held still."""
        end = time.monotonic() + seconds
        while self.is_held() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOKS_EACH, max(0.0, (self._deadline - _now()) / 1e9)))
        return self.is_held()

    def ensure(self) -> None:
        if not self.is_held():
            raise NotHeld(f"lock {self.lock}: the term of token {self.token} is over here")

    def check(self, transaction: Any) -> None:
        """Fails unless the term is still the lock's. A transaction of Google's client, which must be
        serializable, commits before the next term begins, or not at all."""
        from google.cloud.spanner_v1 import param_types as types

        kinds = {"lock": types.STRING, "timestamp": types.TIMESTAMP, "writer": types.STRING}
        sql = f"SELECT 1 FROM {self.fence['table']} WHERE name = @lock AND token = @timestamp AND writer = @writer"
        params = {name: self.fence[name] for name in kinds}
        if not list(transaction.execute_sql(sql, params=params, param_types=kinds)):
            raise Fenced(f"lock {self.lock}: token {self.token} is superseded")

    def _renewed(self, told: Dict[str, Any]) -> None:
        self._deadline = max(self._deadline, int(told["deadline"][_FIELD]))


class _Claim:
    """A claim under a name of its own, its stream and its heartbeats."""

    def __init__(self, place: Place, path: str, wanted: Dict[str, Any], lease: float, own: "Set[_Claim]"):
        self._place, self._path, self._wanted, self._beat, self._own = place, path, wanted, lease / 4, own
        self.name, self.pid, self._thread = secrets.token_hex(16), os.getpid(), threading.get_ident()
        self.term: Optional[Term] = None
        self.error: Optional[Exception] = None
        self.reason: Optional[str] = None
        self._changed, self._is_done = threading.Condition(), False
        # Of the work, once it has stopped. A claim that is done may have work that goes on until the deadline.
        self._outcome = ""
        self._is_opening, self._is_gone = False, False
        self._socket: Optional[socket.socket] = None

    def start(self) -> None:
        """Contends by a stream."""
        self._is_opening = True
        for work in (self._follow, self._beats):
            threading.Thread(target=work, name="spindle-agent", daemon=True).start()

    def acquire(self, wait: float) -> bool:
        """Asks once; again under the same name where the answer was lost. False if the lock is another's."""
        for attempt in range(3):
            try:
                self._started(self._place.ask("POST", self._path, self._body(), wait + ANSWER_MAX, self._asks))
                threading.Thread(target=self._beats, name="spindle-agent", daemon=True).start()
                return True
            except (OSError, ValueError, http.client.HTTPException, AgentError) as error:
                if self._is_done:
                    raise NotHeld("the agent is closed") from error
                if isinstance(error, AgentError):
                    if error.code != "held":
                        raise
                    return False
                if attempt == 2:
                    raise
                time.sleep(_PAUSE_MIN)
        return False

    def _asks(self, connection: http.client.HTTPConnection) -> None:
        self._socket = connection.sock
        if self._is_done:
            self.disconnect()

    def _started(self, told: Dict[str, Any]) -> None:
        with self._changed:
            self.term = Term(told)
            self.term._is_over = self._is_done
            self._changed.notify_all()

    def _body(self) -> Dict[str, Any]:
        return {**self._wanted, "claim": self.name, "clock": {_FIELD: str(_now())}}

    def gains(self) -> Optional[Term]:
        """Waits for a term, or for the end of the claim: none then."""
        with self._changed:
            self._changed.wait_for(lambda: self.term or self._is_done)
            return None if self._is_done else self.term

    def let_go(self, outcome: str = "failed") -> str:
        """Says that the work has stopped; a run is done if its caller says so alone. Returns what came of it: `gone`
        without the agent's answer. The end stands all the same: then the lease runs out."""
        said = "gone"
        if os.getpid() != self.pid:
            return said
        # Said again where SIGTERM has cut it off, or another thread waits for its answer. What was said first stands.
        self._outcome = self._outcome or outcome
        self.ends()
        with self._changed:
            # Once the stream is there, its request can't come after this one.
            self._changed.wait_for(lambda: not self._is_opening, _OPEN_MAX)
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AgentError):
            path = f"/v1/claims/{self.name}?outcome={self._outcome}"
            said = self._place.ask("DELETE", path, None).get("outcome", said)
        self._is_gone = True
        self._own.discard(self)
        if not self._is_opening:
            self.disconnect()
        return said

    def awaits_work(self) -> None:
        """Waits until the work of another thread has stopped, or until its deadline."""
        if os.getpid() == self.pid and self.term and self._thread != threading.get_ident():
            with self._changed:
                self._changed.wait_for(lambda: self._outcome, max(0.0, (self.term._deadline - _now()) / 1e9))

    def disconnect(self) -> None:
        connected, self._socket = self._socket, None
        if connected is not None:
            with contextlib.suppress(OSError):
                if os.getpid() == self.pid:
                    connected.shutdown(socket.SHUT_RDWR)
                    connected.close()
                else:
                    # A child by fork: it must not keep the connection of a parent that dies.
                    os.close(connected.detach())

    def _follow(self) -> None:
        try:
            connection = self._place.open("POST", self._path, self._body(), SILENCE_MAX)
            self._socket = connection.sock
            lines = answer(connection)
            self._opened()
            if self._is_gone:
                # It let go before the agent had the request.
                self.let_go()
                return
            for line in lines:
                if line.startswith(b"data: "):
                    self._told(json.loads(line[6:]))
        except (OSError, ValueError, http.client.HTTPException, AgentError) as error:
            self.error = error
        finally:
            # However the stream ends, nothing is held any more.
            self._opened()
            self.ends()

    def _opened(self) -> None:
        with self._changed:
            self._is_opening = False
            self._changed.notify_all()

    def _told(self, told: Dict[str, Any]) -> None:
        event = told["event"]
        if event == "gained" and not self._is_done:
            self._started(told)
        elif event == "renewed" and self.term and int(told["token"]) == self.term.token:
            self.term._renewed(told)
        elif event in ("lost", "ending", "ended"):
            self.reason = told.get("reason", event)
            # The heartbeats end, too: after a loss the agent contends again, for a term under which nobody works here.
            self.ends()

    def ends(self) -> None:
        """Ends the term, before the work has stopped."""
        if os.getpid() != self.pid:
            return
        with self._changed:
            self._is_done = True
            if self.term:
                self.term._is_over = True
            elif self._path == "/v1/acquire":
                # It may wait for its answer for long.
                self.disconnect()
            self._changed.notify_all()

    def _beats(self) -> None:
        # The agent can't tell a stopped process by its connection.
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._is_done, self._beat):
                    return
            try:
                told = self._place.ask("POST", f"/v1/claims/{self.name}/heartbeat", {}, self._beat * 2)
            except AgentError as error:
                if error.code == "no_such_claim" and self.term:
                    self.ends()
                continue
            except (OSError, ValueError, http.client.HTTPException):
                continue
            if self.term and told.get("token") == str(self.term.token):
                self.term._renewed(told)
            if self.term and told.get("ending"):
                self.ends()


_claims: "weakref.WeakSet[_Claim]" = weakref.WeakSet()
# Those of this process that are not closed.
_agents: "Set[Agent]" = set()


def _after_fork() -> None:
    for claim in list(_claims):
        claim.disconnect()
    _claims.clear()
    for agent in list(_agents):
        # A thread of the parent may have it locked, which no child has.
        agent._changed = threading.Condition()


def _told_to_end(*_: Any) -> None:
    # The interpreter waits for threads that work before it closes anything.
    for agent in list(_agents):
        agent._ends()
    sys.exit(128 + signal.SIGTERM)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Agent:
    """The agent at `address`: `HOST:PORT`, or the path of a socket. Without arguments the environment says it.

    SIGTERM ends each term, and the process by `SystemExit`, unless it has another handler, so that what is held is let
    go of.
    With `release_on_exit`, on a Unix socket and Linux 6.5 or later, `lead` has the agent release for a process that dies.
    """

    def __init__(self, address: Optional[str] = None, token: Optional[str] = None,
                 token_file: Optional[str] = None, *, sigterm: bool = True, release_on_exit: bool = False):
        self._release_on_exit = release_on_exit
        self._place = Place(address, token, token_file)
        # Of a lock that a signal's handler enters anew.
        self._changed, self._is_closed = threading.Condition(), False
        # Those that have not let go.
        self._own: Set[_Claim] = set()
        _agents.add(self)
        atexit.register(self.close)
        is_main = threading.current_thread() is threading.main_thread()
        if sigterm and is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _told_to_end)

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends each term, waits until the work of other threads has stopped or for its deadline, and lets go. It is final:
        `lead` ends then, and calls made after it raise `NotHeld`."""
        for claim in self._ends():
            claim.awaits_work()
            if not claim._is_gone:
                claim.let_go()
        atexit.unregister(self.close)
        _agents.discard(self)

    def _ends(self) -> List[_Claim]:
        """Ends each term, and asks for none any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            claims = list(self._own)
        for claim in claims:
            claim.ends()
        return claims

    def lead(self, lock: str, *, id: Optional[str] = None, lease: float = 10.0) -> Iterator[Term]:
        """Contends for good: each term that is gained. The lock is let go of when the body of the loop is left."""
        pause = _PAUSE_MIN
        while True:
            try:
                claim = self._claim("/v1/lead", {"locks": [lock]}, id, lease)
            except NotHeld:
                return
            try:
                term = claim.gains()
                if term:
                    pause = _PAUSE_MIN
                    yield term
            finally:
                claim.let_go()
            if isinstance(claim.error, AgentError) and claim.error.code in _FINAL:
                raise claim.error
            if not term:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, pause * (0.5 + secrets.randbelow(1000) / 1000))
                pause = min(pause * 2, _PAUSE_MAX)

    @contextlib.contextmanager
    def acquire(self, lock: str, *, wait: float = 0.0, id: Optional[str] = None,
                lease: float = 10.0) -> Iterator[Optional[Term]]:
        """Holds the lock for the body of a `with`; None if it was not to be had within `wait` seconds."""
        wanted = {"lock": lock, "wait": f"{round(wait * 1000)}ms"}
        claim = self._claim("/v1/acquire", wanted, id, lease, starts=False)
        try:
            yield claim.term if claim.acquire(wait) else None
        finally:
            claim.let_go()

    def run_once(self, lock: str, work: Callable[[Term], Any], *, slot: Optional[datetime] = None,
                 every: Optional[float] = None, id: Optional[str] = None, lease: float = 10.0,
                 **choices: Any) -> str:
        """Runs a slot of a job, unless it runs or ran elsewhere; says `released` once the agent has recorded the run,
        `skipped`, or why it ended.

        `choices` are those of docs/agent.yaml, such as `attempts`. An error of `work` counts as a failure of the run.
        """
        wanted: Dict[str, Any] = {"lock": lock, **choices}
        if slot is not None:
            wanted["slot"] = slot.isoformat()
        if every is not None:
            wanted["every"] = f"{round(every * 1000)}ms"
        claim, outcome = self._claim("/v1/run-once", wanted, id, lease), "failed"
        try:
            term = claim.gains()
            if not term:
                if claim.error:
                    raise claim.error
                return claim.reason or "gone"
            work(term)
            if not term.is_held():
                return claim.reason or "gone"
            outcome = "done"
        finally:
            said = claim.let_go(outcome)
        return said

    def _claim(self, path: str, wanted: Dict[str, Any], id: Optional[str], lease: float, *,
               starts: bool = True) -> _Claim:
        wanted = {**wanted, "lease": f"{round(lease * 1000)}ms"}
        if id:
            wanted["id"] = id
        if path == "/v1/lead" and self._release_on_exit:
            wanted.update(on_exit="release", pid=os.getpid())
        claim = _Claim(self._place, path, wanted, lease, self._own)
        with self._changed:
            if self._is_closed:
                raise NotHeld("the agent is closed")
            _claims.add(claim)
            self._own.add(claim)
        if starts:
            claim.start()
        return claim
