"""Leads with the client that a generator has made of docs/agent.yaml: lead.py PROGRAMS DDL."""

import contextlib
import datetime
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import TypeVar

from spindle_agent_client import AuthenticatedClient, Client
from spindle_agent_client.api.default import acquire, heartbeat, lead, leader, release, resign, run_once
from spindle_agent_client.models import (AcquireBody, Deadline, EventKind, Held, LeadBody, Lock, LockEvent, Refusal,
                                         ReleaseResponse200, ResignBody, ResignResponse200, RunOnceBody)

LEASE = 2.0
SECRET = "a secret of the generated client"
T = TypeVar("T")


def a(kind: type[T], answer: object) -> T:
    """The answer, which is of this kind."""
    assert isinstance(answer, kind), answer
    return answer


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def is_held(deadline: object) -> bool:
    return now() < int(a(str, a(Deadline, deadline).boottime_ns))


@contextlib.contextmanager
def started(command: list[str], word: str) -> Iterator[str]:
    """A program until the end, and the line of its output that begins with this word."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        try:
            yield next(line for line in running.stdout if line.startswith(word)).strip()
        finally:
            running.kill()


def events(client: AuthenticatedClient, request: dict[str, object]) -> Iterator[LockEvent]:
    """The events of a stream, as they come."""
    with client.get_httpx_client().stream(**request) as stream:  # type: ignore[arg-type]
        for line in stream.iter_lines():
            if line.startswith("data: "):
                yield LockEvent.from_dict(json.loads(line.removeprefix("data: ")))


def acquires(client: AuthenticatedClient) -> int:
    """Acquires and keeps a lock for two leases, which another can't have; then lets it go."""
    claim, clock = secrets.token_hex(16), Deadline(boottime_ns=str(now()))
    body = AcquireBody(lock="orders", lease=f"{LEASE:.0f}s", claim=claim, clock=clock)
    held = a(Held, acquire.sync(client=client, body=body))
    assert held.claim == claim and is_held(held.deadline), held
    end, beats = time.monotonic() + 2 * LEASE, 0
    while time.monotonic() < end:
        time.sleep(LEASE / 4)
        told = a(Held, heartbeat.sync(claim, client=client))
        assert told.token == held.token and is_held(told.deadline), told
        beats += 1
        refusal = a(Refusal, acquire.sync(client=client, body=AcquireBody(lock="orders")))
        assert refusal.code == "held", refusal
    lock = a(Lock, leader.sync(client=client, lock="orders"))
    assert lock.state == "held" and lock.token == held.token, lock
    assert a(ReleaseResponse200, release.sync(claim, client=client)).outcome == "released"
    assert a(Refusal, heartbeat.sync(claim, client=client)).code == "no_such_claim"
    print(f"generator-acquire: ok heartbeats={beats} token={held.token}", flush=True)
    return int(a(str, held.token))


def leads(client: AuthenticatedClient, before: int) -> None:
    """Leads under one term after the other, gives the first up, and lets the second go."""
    claim, seen, terms, ended = secrets.token_hex(16), [], [], 0
    body, is_over = LeadBody(locks=["orders"], lease=f"{LEASE:.0f}s", claim=claim), threading.Event()

    def beats() -> None:
        while not is_over.wait(LEASE / 4):
            heartbeat.sync(claim, client=client)

    beating = threading.Thread(target=beats, daemon=True)
    beating.start()
    for event in events(client, lead._get_kwargs(body=body)):
        seen.append(event.event.value)
        if event.event is EventKind.GAINED:
            assert is_held(event.deadline), event
            terms.append(int(a(str, event.token)))
        elif event.event is EventKind.RENEWED and ended < len(terms):
            ended += 1
            if ended == 1:
                assert a(ResignResponse200, resign.sync(claim, client=client, body=ResignBody())).resigned
            else:
                assert a(ReleaseResponse200, release.sync(claim, client=client)).outcome == "released"
    is_over.set()
    beating.join()
    assert before < terms[0] < terms[1] and seen[-1] == "ended", (before, terms, seen)
    print(f"generator-lead: ok terms={len(terms)} events={','.join(dict.fromkeys(seen))}", flush=True)


def runs(client: AuthenticatedClient) -> None:
    """Runs a slot of a job; a second request for it is told that it ran."""
    slot, reasons = datetime.datetime.now(datetime.UTC), []
    for _ in range(2):
        claim = secrets.token_hex(16)
        body = RunOnceBody(lock="job", slot=slot, claim=claim)
        for event in events(client, run_once._get_kwargs(body=body)):
            if event.event is EventKind.GAINED:
                a(ReleaseResponse200, release.sync(claim, client=client))
            elif event.event is EventKind.ENDED:
                reasons.append(event.reason)
    assert reasons == ["released", "skipped"], reasons
    print(f"generator-run-once: ok reasons={','.join(map(str, reasons))}", flush=True)


def main(programs: str, ddl: str) -> None:
    with contextlib.ExitStack() as stack:
        emulator = [os.path.join(programs, "spindle-emulator"), "--port=0", "--rest=0", f"--ddl={ddl}"]
        named, _, place = stack.enter_context(started(emulator, "export ")).removeprefix("export ").partition("=")
        os.environ.update({named: place, "SPINDLE_DATABASE": "projects/p/instances/i/databases/d"})
        file = stack.enter_context(tempfile.NamedTemporaryFile("w"))
        file.write(SECRET)
        file.flush()
        agent = [os.path.join(programs, "spindle"), "agent", "--listen=127.0.0.1:0", f"--token-file={file.name}"]
        address = stack.enter_context(started(agent, "Listens on ")).split()[2].rstrip("/")
        stranger = Client(base_url=address)
        assert a(Refusal, acquire.sync(client=stranger, body=AcquireBody(lock="orders"))).code == "unauthorized"
        client = AuthenticatedClient(base_url=address, token=SECRET)
        leads(client, acquires(client))
        runs(client)


main(*sys.argv[1:])
