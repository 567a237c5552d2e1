"""One report against servers that answer well, badly, or not at all."""

import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

from standin import CONTINUE, STOP, TOKEN, Daemon
from arles.settings import Settings, from_environment
from arles.wire import Answer, Failure, post

BODY = {"steps": 1.0, "rate": None, "checkpointed": False}


def send(daemon, timeout_seconds=5.0, job="job-7", **more):
    return post(Settings(daemon.url, job, token=TOKEN, **more), BODY, timeout_seconds)


def failure(daemon, timeout_seconds=5.0):
    try:
        answer = send(daemon, timeout_seconds)
    except Failure as failed:
        return failed
    raise AssertionError(f"got through: {answer}")


class Request(unittest.TestCase):
    def test_path_token_and_body(self):
        with Daemon() as daemon:
            self.assertEqual(send(daemon), Answer(False, None))
        path, headers = daemon.requests[0]
        self.assertEqual(path, "/v1/jobs/job-7/progress")
        self.assertEqual(headers["Authorization"], f"Bearer {TOKEN}")
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertEqual(daemon.reports, [BODY])

    def test_a_prefix_in_the_url_and_an_odd_job_id(self):
        with Daemon() as daemon:
            daemon.url += "/cluster/a/"
            send(daemon, job="team/ä 1?#")
        self.assertEqual(daemon.requests[0][0], "/cluster/a/v1/jobs/team%2F%C3%A4%201%3F%23/progress")

    def test_a_token_file_is_read_each_time(self):
        with Daemon() as daemon, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "token")
            settings = Settings(daemon.url, "j", token_file=path)
            for token in ["first", "second\n"]:
                with open(path, "w") as file:
                    file.write(token)
                post(settings, BODY, 5.0)
            os.unlink(path)
            with self.assertRaises(Failure) as caught:
                post(settings, BODY, 5.0)
        self.assertEqual([h["Authorization"] for _, h in daemon.requests], ["Bearer first", "Bearer second"])
        self.assertEqual(caught.exception.kind, "token")

    def test_no_token_no_header(self):
        with Daemon() as daemon:
            post(Settings(daemon.url, "j"), BODY, 5.0)
        self.assertNotIn("Authorization", daemon.requests[0][1])

    def test_of_several_daemons_the_one_that_leads_answers(self):
        standby = (503, json.dumps({"error": {"code": "standby", "message": "another daemon leads"}}).encode())
        with socket.socket() as closed, Daemon(lambda report: standby) as waiting, Daemon() as leader:
            closed.bind(("127.0.0.1", 0))
            gone = f"http://127.0.0.1:{closed.getsockname()[1]}"
            settings = Settings(f"{gone}, {waiting.url},{leader.url}", "j", token=TOKEN)
            self.assertEqual(post(settings, BODY, 5.0), Answer(False, None))
            self.assertEqual(post(settings, BODY, 5.0), Answer(False, None))
        self.assertEqual((len(waiting.reports), len(leader.reports)), (1, 2), "who answered last is asked first")
        with self.assertRaises(Failure) as caught, Daemon(lambda report: standby) as waiting:
            post(Settings(f"{gone},{waiting.url}", "j"), BODY, 5.0)
        self.assertEqual((caught.exception.kind, caught.exception.final), ("standby", False))

    def test_a_refusal_of_the_leader_is_final_for_all(self):
        with Daemon(lambda report: (404, b"{}")) as leader, Daemon() as other:
            with self.assertRaises(Failure) as caught:
                post(Settings(f"{leader.url},{other.url}", "j"), BODY, 5.0)
        self.assertEqual((caught.exception.kind, other.reports), ("over", []))

    def test_a_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "arles.sock")
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen()

                def answer():
                    connection, _ = listener.accept()
                    with connection:
                        self.asked = connection.recv(65536).split(b"\r\n")[0]
                        body = json.dumps(CONTINUE).encode()
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

                thread = threading.Thread(target=answer)
                thread.start()
                self.assertEqual(post(Settings(f"unix:{path}", "j"), BODY, 5.0), Answer(False, None))
                thread.join()
            self.assertEqual(self.asked, b"POST /v1/jobs/j/progress HTTP/1.1")
            os.unlink(path)
            with self.assertRaises(Failure) as caught:
                post(Settings(f"unix:{path}", "j"), BODY, 5.0)
            self.assertEqual(caught.exception.kind, "unreachable")

    def test_proxies_are_not_asked(self):
        with Daemon() as daemon:
            os.environ["http_proxy"] = "http://127.0.0.1:9"
            try:
                send(daemon)
            finally:
                del os.environ["http_proxy"]

    def test_a_redirect_is_not_followed(self):
        with Daemon() as daemon, Daemon() as elsewhere:

            def redirect(handler):
                handler.send_response(307)
                handler.send_header("Location", elsewhere.url)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            daemon.answer = lambda _: redirect
            self.assertEqual(failure(daemon).kind, "status")
        self.assertEqual(elsewhere.requests, [])


class Answers(unittest.TestCase):
    def test_stop_with_and_without_grace(self):
        odd = [None, "30", True, -1, float("nan"), float("inf"), [], {}]
        cases = [(30.0, 30.0), (0, 0.0), (10**400, 1e9)] + [(grace, None) for grace in odd]
        with Daemon() as daemon:
            for grace, understood in cases:
                with self.subTest(grace=str(grace)[:20]):
                    daemon.answer = lambda _: dict(STOP, grace_seconds=grace)
                    self.assertEqual(send(daemon), Answer(True, understood))

    def test_an_action_of_a_newer_daemon_is_no_reason_to_stop(self):
        with Daemon(lambda _: {"action": "dance"}) as daemon:
            self.assertEqual(send(daemon), Answer(False, None))

    def test_refusals(self):
        error = {"error": {"code": "c", "message": f"no {TOKEN}\n\x1b[31m" + "x" * 999, "hint": "h"}}
        content = json.dumps(error).encode()
        kinds = {400: "status", 401: "token", 403: "token", 404: "over", 409: "over", 429: "status", 500: "status", 503: "status"}
        with Daemon() as daemon:
            for status, kind in kinds.items():
                daemon.answer = lambda _: (status, content)
                failed = failure(daemon)
                self.assertEqual((failed.kind, failed.final), (kind, kind == "over"), status)
                self.assertNotIn(TOKEN, failed.sentence)
                self.assertTrue(failed.sentence.isprintable())
                self.assertLess(len(failed.sentence), 400)

    def test_garbage(self):
        bad = [b"", b"<html>", b"null", b"[]", b"7", b'"continue"', b"{}", b'{"action": 3}', b"[" * 60000, b"\xff\xfe", b"x" * 200000]
        with Daemon() as daemon:
            for content in bad:
                daemon.answer = lambda _: (200, content)
                self.assertEqual(failure(daemon).kind, "malformed", content[:20])

    def test_fuzzed_answers_are_an_answer_or_a_failure_and_never_show_the_token(self):
        chance = random.Random(11)
        good = [json.dumps(STOP).encode(), json.dumps(CONTINUE).encode(), json.dumps({"error": {"message": TOKEN}}).encode()]
        with Daemon() as daemon:
            for _ in range(300):
                content = bytearray(chance.choice(good))
                for _ in range(chance.randrange(6)):
                    at = chance.randrange(len(content))
                    content[at : at + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(3)))
                    content = content or bytearray(b"x")
                status = chance.choice([200, 200, 204, 301, 401, 404, 409, 418, 500, 599])
                raw = chance.random() < 0.3
                wire = bytes(content) if raw else b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (
                    status,
                    chance.choice([len(content), len(content), 0, 5, 10**6]),
                    bytes(content),
                )
                daemon.answer = lambda _: lambda handler: handler.wfile.write(wire)
                try:
                    self.assertIsInstance(send(daemon), Answer)
                except Failure as failed:
                    self.assertNotIn(TOKEN, failed.sentence)


class Network(unittest.TestCase):
    def test_nobody_listens(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            with self.assertRaises(Failure) as caught:
                post(Settings(url, "j", token=TOKEN), BODY, 2.0)
        self.assertEqual(caught.exception.kind, "unreachable")
        self.assertFalse(caught.exception.final)

    def test_a_server_that_hangs(self):
        with Daemon() as daemon:
            daemon.answer = lambda _: daemon.hang
            self.assertEqual(failure(daemon, 0.1).kind, "unreachable")

    def test_a_server_that_dies_in_the_middle_of_its_answer(self):
        heads = [b"", b"HT", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"]
        with Daemon() as daemon:
            for head in heads:
                daemon.answer = lambda _: lambda handler: handler.wfile.write(head)
                self.assertIn(failure(daemon).kind, ("unreachable", "malformed"), head)

    def test_a_server_that_drips(self):
        def drip(handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
            while not daemon.released.wait(0.02):
                handler.wfile.write(b" ")

        with Daemon() as daemon:
            daemon.answer = lambda _: drip
            self.assertEqual(failure(daemon, 0.2).kind, "unreachable")

    def test_addresses_that_are_none(self):
        for url in ["ftp://host", "host:80", "http://", "http://host:port", "http://[::1", "nonsense", "http://h:99999999"]:
            with self.assertRaises(Failure) as caught:
                post(Settings(url, "j", token=TOKEN), BODY, 2.0)
            self.assertTrue(caught.exception.final, url)

    def test_odd_hosts_tokens_and_files(self):
        cases = [
            dict(url="http://ho st:1"),
            dict(url="http://a..b:1"),
            dict(url="http://" + "a" * 300 + ":1"),
            dict(url="http://127.0.0.1:1/\r\nX: y"),
            dict(url="http://127.0.0.1:1", token=f"{TOKEN}\r\nX: y"),
            dict(url="http://127.0.0.1:1", token=f"{TOKEN}ä"),
            dict(url="http://127.0.0.1:1", token_file="/nowhere/\0x"),
            dict(url="http://127.0.0.1:1", token_file="/"),
            dict(url="https://127.0.0.1:1", ca_file="/nowhere"),
            dict(url="https://127.0.0.1:1", ca_file=__file__),
        ]
        for case in cases:
            with self.assertRaises(Failure, msg=str(case)) as caught:
                post(Settings(job="j", **case), BODY, 2.0)
            self.assertNotIn(TOKEN, caught.exception.sentence)

    def test_the_user_in_an_address_is_not_told(self):
        with self.assertRaises(Failure) as caught:
            post(Settings("http://ann:pass@127.0.0.1:1", "j"), BODY, 2.0)
        self.assertNotIn("pass", caught.exception.sentence)

    def test_a_server_without_tls_under_https(self):
        with Daemon() as daemon:
            daemon.url = daemon.url.replace("http:", "https:")
            self.assertEqual(failure(daemon).kind, "unreachable")


class Tls(unittest.TestCase):
    def test_a_daemon_is_trusted_by_the_ca_file_and_not_without(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not here to make a certificate")
        with tempfile.TemporaryDirectory() as folder, Daemon() as daemon:
            key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
            subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
            command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key, "-out", certificate]
            subprocess.run(command + subject, check=True, capture_output=True)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            daemon.server.socket = context.wrap_socket(daemon.server.socket, server_side=True)
            daemon.url = daemon.url.replace("http:", "https:")
            self.assertEqual(send(daemon, ca_file=certificate), Answer(False, None))
            self.assertEqual(failure(daemon).kind, "unreachable")
        self.assertEqual(len(daemon.requests), 1)


class FromEnvironment(unittest.TestCase):
    def test_both_are_needed(self):
        for env in [{}, {"ARLES_URL": "http://h"}, {"ARLES_JOB": "j"}, {"ARLES_URL": " ", "ARLES_JOB": "j"}]:
            self.assertIsNone(from_environment(environ=env))
        self.assertEqual(from_environment("mine", {"ARLES_URL": "http://h"}).job, "mine")

    def test_the_token_is_in_no_repr(self):
        settings = from_environment(environ={"ARLES_URL": "http://h", "ARLES_JOB": "j", "ARLES_TOKEN": TOKEN})
        self.assertEqual(settings.token(), TOKEN)
        self.assertNotIn(TOKEN, repr(settings) + str(settings))


if __name__ == "__main__":
    unittest.main()
