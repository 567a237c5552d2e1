"""What concerns whole processes: signals, forks, exit codes, the end of the interpreter."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from standin import CONTINUE, EXAMPLES, SOURCE, STOP, TOKEN, Daemon, environment, steps_until, under
import arles

HEAD = "import arles, os, signal, sys, threading, time\n"


def run(code, daemon=None, argv=()):
    """A Python process of its own, with or without a daemon."""
    env = {v: value for v, value in os.environ.items() if not v.startswith("ARLES_")}
    env.update(PYTHONPATH=str(SOURCE), PYTHONWARNINGS="ignore::DeprecationWarning")  # newer ones dislike a fork with threads
    if daemon is not None:
        env.update(ARLES_URL=daemon.url, ARLES_JOB="job-7", ARLES_TOKEN=TOKEN)
    command = [sys.executable, *([code] if str(code).endswith(".py") else ["-c", HEAD + code]), *map(str, argv)]
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)


class Example(unittest.TestCase):
    def test_outside_arles_it_just_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(EXAMPLES / "no_framework.py", None, ["--checkpoint", f"{folder}/s.json", "--step-seconds", 0])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("done: 200 steps", done.stdout)

    def test_preempted_it_saves_and_says_85_and_started_again_it_goes_on(self):
        with tempfile.TemporaryDirectory() as folder, Daemon() as daemon:
            path = f"{folder}/s.json"
            options = ["--checkpoint", path, "--every", 0.05, "--step-seconds", 0.005]
            daemon.answer = lambda report: STOP if report["steps"] >= 20 else CONTINUE
            first = run(EXAMPLES / "no_framework.py", daemon, options)
            self.assertEqual((first.returncode, first.stdout, first.stderr), (85, "", ""))
            with open(path) as file:
                saved = json.load(file)["step"]
            last = daemon.reports[-1]
            self.assertEqual((last["steps"], last["checkpointed"]), (saved, True))
            self.assertTrue(20 <= saved < 200)

            daemon.answer = lambda _: CONTINUE
            seen = len(daemon.reports)
            second = run(EXAMPLES / "no_framework.py", daemon, options)
            self.assertEqual(second.returncode, 0, second.stderr)
            self.assertIn("done: 200 steps", second.stdout)
            self.assertEqual((daemon.reports[seen]["steps"], daemon.reports[seen]["rate"]), (float(saved), None))
            self.assertEqual(daemon.reports[-1]["steps"], 200.0)

    def test_the_others_say_what_they_need(self):
        code = "import runpy; sys.modules['torch'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
        for name in ["pytorch_plain.py", "huggingface_trainer.py"]:
            done = run(code, None, [EXAMPLES / name])
            self.assertEqual(done.returncode, 1)
            self.assertIn("This example needs PyTorch", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)


class End(unittest.TestCase):
    LOOP = "for i in arles.track(range(50), every=0.01): time.sleep(0.001)\nprint('trained')"

    def test_a_dead_daemon_costs_one_line_and_not_the_exit_code(self):
        dead = Daemon()
        dead.server.server_close()
        done = run(self.LOOP, dead)
        self.assertEqual((done.returncode, done.stdout), (0, "trained\n"))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertNotIn(TOKEN, done.stderr)

    def test_a_daemon_that_hangs_does_not_keep_the_process(self):
        with Daemon() as daemon:
            daemon.answer = lambda _: daemon.hang
            done = run(self.LOOP, daemon)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "trained\n", ""))

    def test_the_end_of_the_interpreter_in_the_middle_of_things(self):
        with Daemon() as daemon:
            endings = ["", "sys.exit(3)", "os._exit(4)", "raise KeyError", "threading.Thread(target=time.sleep, args=(0.05,)).start()"]
            for ending, code in zip(endings, [0, 3, 4, 1, 0]):
                loop = "arles.Tracker.current = arles.Tracker(every=0.001)\nfor _ in range(20): arles.step(); time.sleep(0.002)\n"
                done = run(loop + ending, daemon)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertNotIn("arles", done.stderr)

    def test_the_last_count_arrives(self):
        with Daemon() as daemon:
            done = run("arles.step()\ntime.sleep(0.5)\narles.step(9)", daemon)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(daemon.reports[-1]["steps"], 10.0)


@unittest.skipUnless(hasattr(os, "fork"), "no fork here")
class Fork(unittest.TestCase):
    def test_a_child_keeps_silent_and_its_parent_goes_on(self):
        with Daemon() as daemon, under(daemon):
            children = []
            for step in arles.track(steps_until(lambda: len(daemon.reports) >= 6), every=0.02):
                if step in (5, 20):
                    pid = os.fork()
                    if pid == 0:
                        arles.Tracker.current is None or os._exit(1)
                        os._exit(0 if threading.active_count() == 1 else 2)
                    children.append(os.waitpid(pid, 0)[1])
            self.assertEqual(children, [0, 0])
            self.assertGreaterEqual(len(daemon.reports), 6)

    def test_an_inherited_wrapper_works_and_reports_nothing(self):
        with Daemon() as daemon, under(daemon):
            tracked = arles.track([1, 2, 3], every=3600.0)
            list(tracked)
            self.assertTrue(daemon.wait(lambda reports: reports))
            pid = os.fork()
            if pid == 0:
                os._exit(0 if list(tracked) == [1, 2, 3] and threading.active_count() == 1 else 1)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            self.assertEqual(len(daemon.reports), 1)

    def test_training_in_a_child_reports(self):
        code = "arles.should_stop()\nif os.fork() == 0:\n    for i in arles.track(range(10), every=0.01): time.sleep(0.02)\nelse: os.wait()"
        with Daemon() as daemon:
            self.assertEqual(run(code, daemon).stderr, "")
        self.assertGreater(max(report["steps"] for report in daemon.reports), 3.0)

    def test_forks_under_load(self):
        code = "import multiprocessing as m\nc = m.get_context('fork')\nfor i in arles.track(range(40), every=0.001, sigterm=True):\n" \
            "    p = c.Process(target=time.sleep, args=(60,)); p.start(); p.terminate(); p.join(10); assert p.exitcode == -15, p.exitcode"
        with Daemon() as daemon:
            done = run(code, daemon)
        self.assertEqual(done.returncode, 0, done.stderr)


class Sigterm(unittest.TestCase):
    def setUp(self):
        self.before = signal.getsignal(signal.SIGTERM)
        self.addCleanup(signal.signal, signal.SIGTERM, self.before)

    def test_it_stops_like_the_daemon_and_the_old_handler_is_called_too(self):
        heard, calls = [], []
        signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
        mine = signal.getsignal(signal.SIGTERM)
        with Daemon() as daemon, under(daemon):
            with self.assertRaises(arles.Preempted):
                for item in arles.track(range(1000), on_stop=lambda: calls.append(item), sigterm=True):
                    if item == 7:
                        os.kill(os.getpid(), signal.SIGTERM)
            self.assertTrue(daemon.reports[-1]["checkpointed"])
        self.assertEqual((heard, calls), ([signal.SIGTERM], [7]))
        self.assertIs(signal.getsignal(signal.SIGTERM), mine)  # given back

    def test_a_handler_that_raises_while_the_last_report_is_under_way(self):
        def raises(*_):
            raise RuntimeError("worker is killed by signal: Terminated")

        before = signal.signal(signal.SIGUSR1, raises)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def answer(report):
            if report["checkpointed"]:
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(0.1)
            return STOP

        with Daemon(answer) as daemon, under(daemon), self.assertRaises(arles.Preempted):
            list(arles.track(steps_until(lambda: False), every=0.02, on_stop=lambda: None))

    def test_unasked_it_is_left_alone(self):
        with Daemon() as daemon, under(daemon):
            list(arles.track([1]))
            self.assertIs(signal.getsignal(signal.SIGTERM), self.before)
        with environment():
            list(arles.track([1], sigterm=True))
            self.assertIs(signal.getsignal(signal.SIGTERM), self.before)

    def test_in_another_thread_it_is_left_alone_with_a_line(self):
        code = "t = threading.Thread(target=lambda: [print(*arles.track([1, 2], sigterm=True)) for _ in range(3)]); t.start(); t.join()"
        with Daemon() as daemon:
            done = run(code, daemon)
        self.assertEqual((done.returncode, done.stdout), (0, "1 2\n" * 3))
        self.assertEqual(done.stderr.count("main thread only"), 1)

    def test_a_handler_put_over_ours_stays(self):
        with Daemon() as daemon, under(daemon):
            list(arles.track([1], sigterm=True))
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.assertIs(signal.getsignal(signal.SIGTERM), signal.SIG_IGN)

    def test_children_of_several_trackers_listen_to_their_parent(self):
        code = "import multiprocessing as m\nc = m.get_context('fork')\na = arles.Tracker(sigterm=True); b = arles.Tracker(sigterm=True)\n"
        foreign = "old = signal.getsignal(15); signal.signal(15, lambda n, f: old(n, f))\n"
        kill = "p = c.Process(target=time.sleep, args=(60,)); p.start(); p.terminate(); p.join(10); print(p.exitcode); p.kill()\n"
        close = "a.close(); os.kill(os.getpid(), 15); print(a.should_stop(), b.should_stop())"
        with Daemon() as daemon:
            for over, said in [("", "-15\nFalse True\n"), (foreign, "-15\nFalse True\n")]:
                done = run(code + over + kill + close, daemon)
                self.assertEqual((done.stdout, done.stderr), (said, ""))

    def test_the_whole_process_ends_with_85(self):
        with Daemon() as daemon, tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, PYTHONPATH=str(SOURCE), ARLES_URL=daemon.url, ARLES_JOB="j")
            command = [sys.executable, str(EXAMPLES / "no_framework.py"), "--checkpoint", f"{folder}/s.json", "--steps", "100000"]
            process = subprocess.Popen(command, env=env)
            self.assertTrue(daemon.wait(lambda reports: reports))
            time.sleep(0.1)
            process.terminate()
            self.assertEqual(process.wait(30), 85)
            self.assertTrue(os.path.exists(f"{folder}/s.json"))


if __name__ == "__main__":
    unittest.main()
