"""A small real HTTP server that stands in for the daemon, which has its own end-to-end test.

It keeps every report and answers as the test says: with a status and a body, or by misbehaving on the socket itself.
"""

import contextlib
import http.server
import json
import logging
import os
import pathlib
import sys
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src"
EXAMPLES = SOURCE.parent / "examples"
sys.path.insert(0, str(SOURCE))

import arles  # noqa: E402
import arles.tracker  # noqa: E402

CONTINUE = {"action": "continue", "grace_seconds": None}
STOP = {"action": "checkpoint-and-stop", "grace_seconds": 30.0}
TOKEN = "s3cr3t-t0k3n"


class Daemon:
    """``answer`` is called with each report and gives a dict, (status, bytes), or a function of the request handler."""

    def __init__(self, answer=lambda report: CONTINUE):
        self.answer = answer
        self.reports = []
        self.requests = []
        self.arrived = threading.Condition()
        self.released = threading.Event()
        daemon = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                report = json.loads(body)
                with daemon.arrived:
                    daemon.requests.append((self.path, dict(self.headers)))
                    daemon.reports.append(report)
                    daemon.arrived.notify_all()
                answer = daemon.answer(report)
                if callable(answer):
                    self.close_connection = True
                    return answer(self)
                status, content = answer if isinstance(answer, tuple) else (200, json.dumps(answer).encode())
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # a client that has given up

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def hang(self, _handler):
        """Says nothing until the test is over."""
        self.released.wait(30)

    def wait(self, enough, seconds=10.0):
        """Waits until ``enough(reports)``; whether it came to that."""
        with self.arrived:
            return self.arrived.wait_for(lambda: enough(self.reports), seconds)


@contextlib.contextmanager
def environment(**variables):
    """Only these of our variables, and a process that has tracked nothing yet."""
    ours = [v for v in os.environ if v.startswith("ARLES_")] + ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"]
    before = {v: os.environ.pop(v) for v in ours if v in os.environ}
    os.environ.update(variables)
    forget()
    try:
        yield
    finally:
        forget()
        for variable in variables:
            os.environ.pop(variable, None)
        os.environ.update(before)


def forget():
    arles.tracker._close_all()
    arles._trackers.clear()
    arles.Tracker.current = None


def under(daemon, **more):
    """The environment of a job of this daemon."""
    return environment(ARLES_URL=daemon.url, ARLES_JOB="job-7", **more)


class Log(logging.Handler):
    """Keeps what the package logs, as text."""

    def __init__(self):
        super().__init__()
        self.lines = []
        self.came = threading.Event()

    def emit(self, record):
        self.lines.append(f"{record.levelname} {record.getMessage()} {record.args}")
        self.came.set()

    def __enter__(self):
        logger = logging.getLogger("arles")
        logger.addHandler(self)
        logger.propagate = False
        return self

    def __exit__(self, *_):
        logger = logging.getLogger("arles")
        logger.removeHandler(self)
        logger.propagate = True


def steps_until(condition, seconds=10.0):
    """A loader without end, but for the test's sake."""
    deadline = time.monotonic() + seconds
    n = 0
    while not condition() and time.monotonic() < deadline:
        yield n
        n += 1
        time.sleep(0.001)
