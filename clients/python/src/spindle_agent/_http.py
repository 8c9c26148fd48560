"""Requests to the agent, over TCP or a Unix socket."""

import http.client
import json
import os
import re
import socket
from typing import Any, Callable, Dict, Optional

# The agent sends a comment each 15 s.
SILENCE_MAX = 45.0
ANSWER_MAX = 30.0
# Without a port `http.client` takes 80, where another server may answer.
_ADDRESS = re.compile(r"/.*|(\[[^][\s/]+]|[^][\s/:@?#]+):(\d{1,5})")


class AgentError(Exception):
    """The agent refused: `code` is one of those of docs/agent.yaml."""

    def __init__(self, status: int, code: str, text: str):
        super().__init__(f"{status} {code}: {text}")
        self.status, self.code = status, code


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Place:
    """The agent's address and its secret, which is read anew for each request."""

    def __init__(self, address: Optional[str], token: Optional[str], token_file: Optional[str]):
        self.address = address or os.environ.get("SPINDLE_AGENT") or "127.0.0.1:9465"
        match = _ADDRESS.fullmatch(self.address)
        if not match or not 0 < int(match[2] or 1) < 2**16:
            raise ValueError(f"address {self.address}: expected HOST:PORT, or the path of a socket")
        self.token = token or os.environ.get("SPINDLE_AGENT_TOKEN")
        self.token_file = token_file or (None if token else os.environ.get("SPINDLE_AGENT_TOKEN_FILE"))

    def open(self, method: str, path: str, body: Any, limit: float) -> http.client.HTTPConnection:
        """Sends a request. Its answer is yet to be read."""
        make = _UnixConnection if self.address.startswith("/") else http.client.HTTPConnection
        connection = make(self.address, timeout=limit)
        headers = {"Content-Type": "application/json"}
        token = self.token
        if self.token_file:
            with open(self.token_file, encoding="utf-8") as file:
                token = file.read().strip()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, json.dumps(body), headers)
        except BaseException:
            connection.close()
            raise
        return connection

    def ask(self, method: str, path: str, body: Any, limit: float = ANSWER_MAX,
            begun: Callable[[http.client.HTTPConnection], None] = lambda connection: None) -> Dict[str, Any]:
        """Returns what the answer says. Whoever has begun may end the connection of another thread."""
        connection = self.open(method, path, body, limit)
        try:
            begun(connection)
            return json.loads(answer(connection).read())
        finally:
            connection.close()


def answer(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    """Returns the answer, unless it is a refusal."""
    response = connection.getresponse()
    if response.status == 200:
        return response
    text = response.read().decode(errors="replace")
    try:
        told = json.loads(text)
    except ValueError:
        told = {}
    raise AgentError(response.status, told.get("code", "unknown"), told.get("error", text))
