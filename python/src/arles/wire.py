"""One report, there and back.

    POST {ARLES_URL}/v1/jobs/{ARLES_JOB}/progress   {"steps": 1234.0, "rate": 3.2, "checkpointed": false}
    200   {"action": "continue" | "checkpoint-and-stop", "grace_seconds": 30.0 | null}
    else  {"error": {"code": "...", "message": "...", "hint": "..."}}

Whatever goes wrong comes out as a `Failure` whose sentence may be logged: it never holds the token, not even if the server sends the token
back. Redirects are not followed and proxies not asked, so the token goes to the hosts in ARLES_URL and nowhere else. ARLES_URL may be unix:SOCKET, and
several addresses with commas between them: of daemons that share a state folder, whichever leads answers.
"""

from __future__ import annotations

# Asked for by name lookups at the last moment. A fork while the reporter's thread imports it would leave the child without it for ever.
import encodings.idna  # noqa: F401
import http.client
import json
import math
import re
import socket
import ssl
import time
from typing import Any, Dict, NamedTuple, Optional
from urllib.parse import quote, urlsplit

from .settings import Settings

#: An answer is a line; whoever sends more than this is not the daemon.
ANSWER_BYTES = 65536

UNIX = "unix:"


class Answer(NamedTuple):
    """What the daemon wants."""

    stop: bool
    grace_seconds: Optional[float]


class Failure(Exception):
    """A report that did not get through. ``kind`` is what is logged once; ``final`` means that no later one will get through either."""

    def __init__(self, kind: str, sentence: str, final: bool = False) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.final = final


#: Of daemons that share a state folder one answers: which of ARLES_URL's addresses that was the last time.
_answered: Dict[str, int] = {}


def post(settings: Settings, body: Dict[str, Any], timeout_seconds: float) -> Answer:
    """Sends one report. Raises `Failure`, and nothing else that a server, a network or a file could cause."""
    deadline = time.monotonic() + timeout_seconds
    try:
        token = settings.token()
    except (OSError, ValueError) as error:
        raise Failure("token", f"ARLES_TOKEN_FILE cannot be read ({_reason(error)}): make it readable to the job") from None
    urls = [url.strip() for url in settings.url.split(",") if url.strip()] or [""]
    first = _answered.get(settings.url, 0)
    failure: Optional[Failure] = None
    for number in range(len(urls)):
        at = (first + number) % len(urls)
        left = deadline - time.monotonic()
        if failure is not None and left <= 0:
            break
        try:
            answer = _post(settings, urls[at], token, body, max(left / (len(urls) - number), 0.05))
        except Failure as one:
            failure = one
            # One that stands by answers 503, and one that is gone not at all; any other refusal is the leader's.
            if one.kind not in ("unreachable", "standby"):
                raise
            continue
        _answered[settings.url] = at
        return answer
    raise failure or Failure("unreachable", "no address of ARLES_URL answered in time")


def _post(settings: Settings, url: str, token: Optional[str], body: Dict[str, Any], timeout_seconds: float) -> Answer:
    deadline = time.monotonic() + timeout_seconds
    path, headers, connection = _prepare(settings, url, token, timeout_seconds)
    try:
        connection.request("POST", path, json.dumps(body, allow_nan=False).encode(), headers)
        response = connection.getresponse()
        content = _read(response, deadline)
        status = response.status
    except (OSError, http.client.HTTPException, ValueError) as error:
        # the text of an error may quote a header, and a header holds the token: only its name is told
        where = "the socket in ARLES_URL" if url.startswith(UNIX) else urlsplit(url).hostname
        raise Failure("unreachable", f"no answer from {where} ({_reason(error)})") from None
    finally:
        connection.close()
    if status == 200:
        return _understand(content)
    raise _refusal(status, content, token)


class _SocketConnection(http.client.HTTPConnection):
    """HTTP through the socket in a daemon's state folder."""

    def __init__(self, path: str, timeout_seconds: float) -> None:
        super().__init__("localhost", timeout=timeout_seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _prepare(settings: Settings, url: str, token: Optional[str], timeout_seconds: float) -> Any:
    """The path, the headers and a connection that is not open yet."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
    if token is not None:
        if not token.isascii() or not token.isprintable():
            raise Failure("token", "the token has characters that no header may hold: write it to its file again")
        headers["Authorization"] = f"Bearer {token}"
    progress = f"/v1/jobs/{quote(settings.job, safe='')}/progress"
    if url.startswith(UNIX) and len(url) > len(UNIX) and "\0" not in url:
        return progress, headers, _SocketConnection(re.sub("^//", "", url[len(UNIX) :]), timeout_seconds)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host or not host.isprintable() or " " in host:
        raise Failure("url", "ARLES_URL is not an address like https://host:port or unix:SOCKET: correct it", final=True)
    path = quote(parts.path.rstrip("/"), safe="/%") + progress
    if parts.scheme == "http":
        return path, headers, http.client.HTTPConnection(host, port, timeout=timeout_seconds)
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ValueError) as error:
        raise Failure("ca", f"ARLES_CA is not a readable file of certificates in PEM ({_reason(error)})") from None
    return path, headers, http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=context)


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """The body, at most `ANSWER_BYTES` of it: a socket's own timeout bounds each read, not a server that drips byte by byte."""
    content = b""
    while len(content) < ANSWER_BYTES:
        piece = response.read1(ANSWER_BYTES - len(content))
        if not piece:
            break
        content += piece
        if time.monotonic() > deadline:
            raise TimeoutError()
    return content


def _understand(content: bytes) -> Answer:
    """An unknown action is no reason to stop: a newer daemon may have more of them."""
    answer = _json(content)
    if not isinstance(answer, dict) or not isinstance(answer.get("action"), str):
        raise Failure("malformed", "the answer to a report is not what arles sends: does ARLES_URL point to something else?")
    grace = answer.get("grace_seconds")
    if isinstance(grace, bool) or not isinstance(grace, (int, float)) or not 0 <= grace < math.inf:
        grace = None
    return Answer(answer["action"] == "checkpoint-and-stop", None if grace is None else float(min(grace, 1e9)))


def _refusal(status: int, content: bytes, token: Optional[str]) -> Failure:
    answer = _json(content)
    error = answer.get("error") if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    said = f": {_tame(message, token)}" if isinstance(message, str) and message else ""
    if status in (404, 409):
        return Failure("over", f"the job is over or unknown, so nothing more is reported (HTTP {status}{said})", final=True)
    if status in (401, 403):
        return Failure("token", f"the token was not accepted (HTTP {status}{said}): check ARLES_TOKEN or ARLES_TOKEN_FILE")
    if status == 503 and isinstance(error, dict) and error.get("code") == "standby":
        return Failure("standby", f"the daemon stands by for another that leads (HTTP 503{said})")
    return Failure("status", f"the report was refused (HTTP {status}{said})")


def _json(content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _tame(message: str, token: Optional[str]) -> str:
    """What a server said, fit for one line of a log."""
    if token:
        message = message.replace(token, "***")
    return "".join(c if c.isprintable() else " " for c in message)[:200]


def _reason(error: BaseException) -> str:
    strerror = getattr(error, "strerror", None)
    return f"{type(error).__name__}: {strerror}" if isinstance(strerror, str) else type(error).__name__
