"""The package, with agents and locks that are real. `clients/test` has the database."""

import contextlib
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import unittest.mock
from datetime import datetime, timezone

import spindle_agent

# What is waited for comes within LIMIT, also on a busy machine. A lease of LONG runs out later than that.
LIMIT, LONG = 40.0, 60.0
# A term that is held for LATER has outlasted its LEASE.
LEASE, LATER = 6.0, 8.0


class Started:
    """An agent of the program's."""

    def __init__(self, *arguments, at="--listen=127.0.0.1:0"):
        command = [os.environ["SPINDLE_PROGRAM"], "agent", at, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().split()
        self.address = line[2].removeprefix("http://").rstrip("/")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def played(streams=lambda tell: None, beaten=lambda: {}, released=lambda outcome: (200, {"outcome": "released"})):
    """The address of an agent that is played: it tells a stream's events, and answers heartbeats and releases."""

    class Request(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/heartbeat"):
                return self.says(200, beaten())
            self.says(200)
            with contextlib.suppress(OSError):
                streams(self.tell)

        def do_DELETE(self):
            answer = released(self.path.partition("?outcome=")[2])
            if answer:
                self.says(*answer)

        def tell(self, event, **more):
            far = str(spindle_agent._now() + 10**15)
            told = {"event": event, "lock": "played", "token": "1", "fence": {}, **more}
            told["deadline"] = {"boottime_ns": far, "monotonic_ns": far}
            self.wfile.write(b"data: %s\n\n" % json.dumps(told).encode())

        def says(self, status, told=None):
            self.send_response(status)
            self.end_headers()
            if told is not None:
                self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Request) as server:
        server.daemon_threads = True
        serves = threading.Thread(target=server.serve_forever, args=(0.05,))
        serves.start()
        try:
            yield "127.0.0.1:%d" % server.server_address[1]
        finally:
            server.shutdown()
            serves.join()


@contextlib.contextmanager
def relayed(address, asked):
    """Passes requests to lead on late, and keeps their connections for a while."""

    def passes(client):
        with client, socket.create_connection(address.split(":")) as agent:
            head = client.recv(65536)
            if b"/v1/lead" in head:
                asked.set()
                time.sleep(0.3)
            agent.sendall(head)
            answers = threading.Thread(target=returns, args=(agent, client))
            answers.start()
            while text := client.recv(65536):
                agent.sendall(text)
            time.sleep(0.5)
            agent.shutdown(socket.SHUT_RDWR)
            answers.join(LIMIT)

    def returns(agent, client):
        with contextlib.suppress(OSError):
            while text := agent.recv(65536):
                client.sendall(text)
            client.shutdown(socket.SHUT_WR)

    def accepts():
        with contextlib.suppress(OSError):
            while True:
                work = threading.Thread(target=passes, args=server.accept()[:1])
                work.start()
                works.append(work)

    works = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accepts)
        thread.start()
        try:
            yield "127.0.0.1:%d" % server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for work in [thread, *works]:
                work.join(LIMIT)


def gains(agent, lock, **choices):
    """The first term, which comes sooner than by the end of another's lease of LONG."""
    began, terms = time.monotonic(), agent.lead(lock, **choices)
    term, took = next(terms), time.monotonic() - began
    if took > LIMIT:
        raise AssertionError(f"{lock} was not let go of: {took} s")
    return term, terms


class Package(unittest.TestCase):
    def test_a_term_lasts_longer_than_its_lease_and_is_let_go_of_at_the_end_of_the_loop(self):
        with Started() as started, spindle_agent.Agent(started.address) as agent:
            with agent.acquire("python-lasts", lease=LEASE) as other:
                term, terms = gains(agent, "python-lead", lease=LEASE)
                self.assertTrue(term.wait(LATER), "heartbeats renew it")
                self.assertTrue(other.is_held(), "its heartbeats tell later deadlines")
            terms.close()
            self.assertFalse(term.is_held())
            with self.assertRaises(spindle_agent.NotHeld):
                term.ensure()
            for _ in range(2):
                after, terms = gains(agent, "python-lead", lease=LONG)
                self.assertGreater(after.token, term.token)
                term = after
                terms.close()

    def test_a_lock_of_another_is_not_acquired_and_is_once_it_is_let_go_of(self):
        with Started() as started, spindle_agent.Agent(started.address) as agent:
            with agent.acquire("python-acquire", lease=LONG) as term:
                self.assertTrue(term.is_held())
                with agent.acquire("python-acquire") as other:
                    self.assertIsNone(other)
            with agent.acquire("python-acquire", wait=LIMIT) as after:
                self.assertGreater(after.token, term.token)

    def test_a_slot_runs_once_and_again_after_a_failure(self):
        slot, runs = datetime.now(timezone.utc), []

        def fails(term):
            raise RuntimeError("the work failed")

        with Started() as started, spindle_agent.Agent(started.address) as agent:
            run = lambda work: agent.run_once("python-job", work, slot=slot, retry_pause="100ms", lease=LONG)
            with self.assertRaises(RuntimeError):
                run(fails)
            self.assertEqual((run(runs.append), run(runs.append), len(runs)), ("released", "skipped", 1))

    def test_a_run_is_released_if_the_agent_says_so_alone(self):
        for answer, said in (
            ((200, {"outcome": "released"}), "released"),
            ((200, {"outcome": "ended_before"}), "ended_before"),
            ((200, {"outcome": "unacknowledged"}), "unacknowledged"),
            ((404, {"code": "no_such_claim", "error": "it is over"}), "gone"),
            (None, "gone"),
        ):
            outcomes, asked = [], threading.Event()

            def streams(tell):
                tell("gained")
                asked.wait(LIMIT)
                tell("renewed")
                # The package may mistake this for the answer to a request that came late.
                time.sleep(0.2)

            def released(outcome):
                outcomes.append(outcome)
                asked.set()
                time.sleep(0.5)
                return answer

            with self.subTest(said=said, answer=answer), played(streams, released=released) as address:
                with spindle_agent.Agent(address) as agent:
                    self.assertEqual(agent.run_once("python-said", lambda term: None, every=3600.0), said)
                self.assertEqual(outcomes, ["done"])

    def test_an_address_without_a_port_is_refused(self):
        wrong = "localhost agent.sock run/agent.sock:1 http://localhost:1 localhost: :1 a:0 a:65536 ::1:1 [::1]"
        for address in wrong.split():
            text = f"address {address}: expected HOST:PORT, or the path of a socket"
            with self.subTest(address), self.assertRaisesRegex(ValueError, re.escape(text)):
                spindle_agent.Agent(address)
        for address in "localhost:80", "127.0.0.1:9465", "[::1]:9465", "a_b.c-d:1", "/run/spindle/agent.sock":
            spindle_agent.Agent(address).close()

    def test_an_address_of_ipv6(self):
        try:
            server = socket.create_server(("::1", 0), family=socket.AF_INET6)
        except OSError as error:
            self.skipTest(f"this machine has none: {error}")
        with server:
            place = spindle_agent.Agent("[::1]:%d" % server.getsockname()[1])._place
            with contextlib.closing(place.open("GET", "/", None, LIMIT)):
                server.accept()[0].close()

    def test_a_run_that_close_interrupts_is_not_recorded_as_done(self):
        slot, begun, closed = datetime.now(timezone.utc), threading.Event(), threading.Event()
        with Started() as started, spindle_agent.Agent(started.address) as other:

            def works(term):
                begun.set()
                closed.wait(LIMIT)

            agent = spindle_agent.Agent(started.address)
            choices = {"slot": slot, "retry_pause": "100ms", "lease": LEASE}
            run = lambda agent, work: agent.run_once("python-closed", work, **choices)
            worker = threading.Thread(target=run, args=(agent, works))
            worker.start()
            self.assertTrue(begun.wait(LIMIT))
            agent.close()
            closed.set()
            worker.join(LIMIT)
            self.assertEqual(run(other, lambda term: None), "released")

    def test_close_ends_the_work_of_other_threads_first_and_lets_go_then(self):
        begun, steps = threading.Event(), []
        with Started() as started, spindle_agent.Agent(started.address) as other:
            agent = spindle_agent.Agent(started.address)

            def works():
                for term in agent.lead("python-close", lease=LONG):
                    begun.set()
                    term.wait(LIMIT)
                    time.sleep(0.2)
                    steps.append("work")

            worker = threading.Thread(target=works)
            worker.start()
            self.assertTrue(begun.wait(LIMIT))
            agent.close()
            steps.append("closed")
            worker.join(LIMIT)
            self.assertEqual(steps, ["work", "closed"])
            gains(other, "python-close", lease=LONG)[1].close()

    def test_a_contender_that_is_closed_before_its_request_arrives_leaves_nothing_behind(self):
        with Started() as started, spindle_agent.Agent(started.address) as other:
            # It waits for the answer to its request, or lets go once more when that comes.
            for longest in LIMIT, 0.0:
                asked = threading.Event()
                patched = unittest.mock.patch.object(spindle_agent, "_OPEN_MAX", longest)
                with self.subTest(longest), patched, relayed(started.address, asked) as address:
                    agent = spindle_agent.Agent(address)
                    leads = threading.Thread(target=lambda: list(agent.lead("python-early", lease=LONG)))
                    leads.start()
                    self.assertTrue(asked.wait(LIMIT))
                    agent.close()
                    leads.join(LIMIT)
                    gains(other, "python-early", lease=LONG)[1].close()

    def test_a_call_that_close_comes_before_asks_for_nothing(self):
        make = spindle_agent._Claim
        with Started() as started:
            agent = spindle_agent.Agent(started.address)
            closes = lambda *settings: agent.close() or make(*settings)
            with unittest.mock.patch.object(spindle_agent, "_Claim", closes):
                self.assertIsNone(next(agent.lead("python-late"), None), "it has closed meanwhile")
            self.assertIsNone(next(agent.lead("python-late"), None))
            with self.assertRaises(spindle_agent.NotHeld), agent.acquire("python-late"):
                pass
            with self.assertRaises(spindle_agent.NotHeld):
                agent.run_once("python-late", lambda term: None, every=3600.0)

    def test_a_client_that_was_silent_lets_go_of_nothing_before_its_work_has_stopped(self):
        silent = unittest.mock.patch.object(spindle_agent._Claim, "_beats", lambda claim: None)
        with silent, Started() as started, spindle_agent.Agent(started.address) as agent:
            term, terms = gains(agent, "python-silent", lease=LEASE)
            self.assertFalse(term.wait(LIMIT), "the agent has ended the claim")
            end = time.monotonic() + 1.0
            while time.monotonic() < end:
                with agent.acquire("python-silent") as after:
                    if after:
                        self.assertGreater(spindle_agent._now(), term._deadline, "the work may go on until then")
            terms.close()

    def test_no_heartbeat_is_sent_after_a_loss(self):
        beats, begun, ends = [], threading.Event(), threading.Event()

        def streams(tell):
            tell("gained")
            begun.wait(LIMIT)
            tell("lost", reason="lapsed")
            ends.wait(LIMIT)

        with played(streams, lambda: beats.append(1) or {}) as address, spindle_agent.Agent(address) as agent:
            for term in agent.lead("python-lost", lease=0.2):
                begun.set()
                self.assertFalse(term.wait(LIMIT))
                before = len(beats)
                time.sleep(1.0)
                self.assertLessEqual(len(beats) - before, 1, "one may be under way")
                ends.set()
                break

    def test_an_answer_that_is_cut_is_asked_for_again(self):
        answers = [
            b'HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{"lock',
            b'HTTP/1.1 409 Conflict\r\n\r\n{"code":"held","error":"held"}',
            b'HTTP/1.1 404 Not Found\r\n\r\n{}',
        ]
        with socket.create_server(("127.0.0.1", 0)) as server:

            def answer():
                for text in answers:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(text)
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(65536):
                            pass

            thread = threading.Thread(target=answer)
            thread.start()
            agent = spindle_agent.Agent("127.0.0.1:%d" % server.getsockname()[1])
            with agent.acquire("python-cut") as term:
                self.assertIsNone(term)
            thread.join(LIMIT)
            agent.close()

    def test_a_token_that_is_given_goes_before_the_file_of_the_environment(self):
        with unittest.mock.patch.dict(os.environ, {"SPINDLE_AGENT_TOKEN_FILE": "/nonexistent"}):
            self.assertIsNone(spindle_agent.Agent(token="a secret that is given")._place.token_file)
            self.assertEqual(spindle_agent.Agent()._place.token_file, "/nonexistent")

    def test_a_socket_and_a_secret_that_is_written_anew(self):
        with tempfile.TemporaryDirectory() as folder:
            secret = os.path.join(folder, "token")

            def write(text):
                with open(secret, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                    file.write(text)

            write("the first of two secrets")
            at = "--socket=" + os.path.join(folder, "agent.sock")
            with Started("--token-file", secret, at=at) as started:
                with spindle_agent.Agent(started.address, token_file=secret) as agent:
                    for text in "the first of two secrets", "another secret, and longer":
                        write(text)
                        with agent.acquire("python-secret") as term:
                            self.assertTrue(term.is_held())
                refused = spindle_agent.Agent(started.address, token="something else altogether")
                with self.assertRaises(spindle_agent.AgentError) as raised:
                    with refused.acquire("python-secret"):
                        pass
                self.assertEqual(raised.exception.code, "unauthorized")

    def test_a_child_by_fork_believes_nothing_and_keeps_no_connection(self):
        with Started() as started, spindle_agent.Agent(started.address) as agent:
            term, terms = gains(agent, "python-fork", lease=LONG)
            child = os.fork()
            if child == 0:
                connections = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                               if os.path.exists(f"/proc/self/fd/{fd}")]
                sockets = [name for name in connections if name.startswith("socket:")]
                agent.close()
                os._exit(int(term.is_held()) + 2 * len(sockets))
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertTrue(term.is_held(), "the child has let go of nothing")
            terms.close()

    def test_an_agent_that_ends_is_let_go_of_and_another_leads_at_once(self):
        with Started() as first, Started() as second:
            with spindle_agent.Agent(first.address) as one, spindle_agent.Agent(second.address) as other:
                term, terms = gains(one, "python-ending", lease=LONG)
                first.process.send_signal(signal.SIGTERM)
                self.assertFalse(term.wait(LIMIT))
                terms.close()
                after, terms = gains(other, "python-ending", lease=LONG)
                self.assertGreater(after.token, term.token)
                terms.close()
                first.process.wait(LIMIT)

    def test_a_service_that_is_told_to_end_lets_go(self):
        self.ends_by_sigterm("python-sigterm", """
            import spindle_agent
            with spindle_agent.Agent() as agent:
                for term in agent.lead("python-sigterm", lease=60.0):
                    print("leads", flush=True)
                    term.wait(1e6)
            """)

    def test_a_service_whose_threads_work_is_told_to_end_and_lets_go(self):
        self.ends_by_sigterm("python-threads", """
            import contextlib, threading, spindle_agent
            agent, begun = spindle_agent.Agent(), threading.Barrier(3)
            def leads():
                for term in agent.lead("python-threads", lease=60.0):
                    begun.wait()
                    term.wait(1e6)
            def waits():
                with contextlib.suppress(spindle_agent.NotHeld):
                    begun.wait()
                    with agent.acquire("python-threads", wait=600.0):
                        pass
            for work in leads, waits:
                threading.Thread(target=work).start()
            begun.wait()
            print("leads", flush=True)
            threading.Event().wait()
            """)

    def test_a_release_that_sigterm_cuts_off_is_asked_for_again(self):
        source = """
            import spindle_agent
            agent = spindle_agent.Agent()
            for term in agent.lead("played"):
                pass
            """
        asked, first, ends = [], threading.Event(), threading.Event()

        def streams(tell):
            tell("gained")
            ends.wait(LIMIT)

        def released(outcome):
            asked.append(outcome)
            if len(asked) > 1:
                return 200, {"outcome": "released"}
            first.set()
            ends.wait(LIMIT)

        with played(streams, released=released) as address:
            command = [sys.executable, "-c", textwrap.dedent(source)]
            with subprocess.Popen(command, env={**os.environ, "SPINDLE_AGENT": address}) as service:
                try:
                    self.assertTrue(first.wait(LIMIT))
                    service.send_signal(signal.SIGTERM)
                    self.assertEqual(service.wait(LIMIT), 143)
                    self.assertEqual(asked, ["failed"] * 2)
                finally:
                    ends.set()
                    service.kill()

    def ends_by_sigterm(self, lock, source):
        with Started() as started, spindle_agent.Agent(started.address) as agent:
            environment = {**os.environ, "SPINDLE_AGENT": started.address}
            command = [sys.executable, "-c", textwrap.dedent(source)]
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as service:
                try:
                    self.assertEqual(service.stdout.readline(), b"leads\n")
                    service.send_signal(signal.SIGTERM)
                    self.assertEqual(service.wait(LIMIT), 143)
                finally:
                    service.kill()
            gains(agent, lock, lease=LONG)[1].close()

    def test_what_no_repetition_cures_is_raised(self):
        with Started() as started, spindle_agent.Agent(started.address) as agent:
            with self.assertRaises(spindle_agent.AgentError) as raised:
                next(agent.lead("python-bad", id=">id"))
            self.assertEqual(raised.exception.code, "bad_request")


if __name__ == "__main__":
    unittest.main()
