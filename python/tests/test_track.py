"""`track`, `step`, `Tracker`: what the training thread sees."""

import copy
import pickle
import random
import threading
import time
import unittest

from standin import CONTINUE, STOP, TOKEN, Daemon, Log, environment, steps_until, under  # first: it puts the package on the path
import arles
from arles import ranks

FAST = 0.02


def stop_after(reports):
    """A daemon's answers: go on, until so many reports have come."""
    seen = []

    def answer(report):
        seen.append(report)
        return STOP if len(seen) >= reports else CONTINUE

    return answer


class Loader:
    """As those of the frameworks: a length, attributes, a new iterator for every epoch."""

    def __init__(self, items):
        self.items = items
        self.epoch = 0

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)

    def set_epoch(self, epoch):
        self.epoch = epoch


class OutsideArles(unittest.TestCase):
    def test_nothing_happens(self):
        threads = threading.active_count()
        for variables in [{}, {"ARLES_URL": "http://127.0.0.1:1"}, {"ARLES_JOB": "j"}]:
            with environment(**variables):
                loader = [1, 2, 3]
                self.assertIs(arles.track(loader, on_stop=self.fail, sigterm=True), loader)
                arles.resume(5)
                arles.step()
                arles.report(steps=7, checkpointed=True)
                self.assertFalse(arles.should_stop())
                with arles.Tracker(on_stop=self.fail) as tracker:
                    tracker.step(3)
                self.assertEqual(tracker.steps, 3)
        self.assertEqual(threading.active_count(), threads)

    def test_a_wrong_every_is_refused_there_too(self):
        with environment():
            for every in [0, -1.0, float("nan"), float("inf"), "5", None, True]:
                with self.assertRaisesRegex(ValueError, "expected seconds above 0"):
                    arles.track([], every=every)


class PassesThrough(unittest.TestCase):
    def test_items_length_and_attributes(self):
        with Daemon() as daemon, under(daemon):
            loader = Loader([object(), None, StopIteration, 0])
            tracked = arles.track(loader)
            for epoch in range(3):
                tracked.set_epoch(epoch)
                self.assertTrue(all(a is b for a, b in zip(tracked, loader.items)))
                self.assertEqual(list(tracked), loader.items)
            self.assertEqual((len(tracked), tracked.epoch, loader.epoch), (4, 2, 2))
            tracked.epoch = 9
            self.assertEqual(loader.epoch, 9)
            self.assertTrue(tracked)
            self.assertIn(None, tracked)
            with self.assertRaises(AttributeError):
                tracked.nothing

    def test_a_copy_is_the_plain_loader(self):
        with Daemon() as daemon, under(daemon):
            for loader in [[1, 2], range(3)]:
                tracked = arles.track(loader)
                for copied in [copy.copy(tracked), copy.deepcopy(tracked), pickle.loads(pickle.dumps(tracked))]:
                    self.assertIs(type(copied), type(loader))
                    self.assertEqual(copied, loader)

    def test_what_has_no_length_has_none(self):
        with Daemon() as daemon, under(daemon):
            tracked = arles.track(x for x in "abc")
            self.assertTrue(tracked)
            with self.assertRaises(TypeError):
                len(tracked)
            self.assertEqual(next(tracked), "a")
            self.assertEqual(list(tracked), ["b", "c"])
            self.assertEqual(arles.Tracker.current.steps, 3)
            self.assertEqual(arles.track([4, 5])[1], 5)

    def test_what_the_loader_raises_comes_out(self):
        def broken():
            yield 1
            raise KeyError("the loader's own")

        with Daemon() as daemon, under(daemon):
            with self.assertRaisesRegex(KeyError, "the loader's own"):
                list(arles.track(broken()))

    def test_the_count_goes_on_over_epochs_in_one_thread(self):
        with Daemon() as daemon, under(daemon):
            threads = set()
            for _ in range(5):
                for _ in arles.track(Loader(range(10))):
                    threads.update(t for t in threading.enumerate() if t.name == "arles")
            self.assertEqual(arles.Tracker.current.steps, 50)
            self.assertEqual(len(threads), 1)


class Reports(unittest.TestCase):
    def test_steps_and_rate_arrive(self):
        with Daemon() as daemon, under(daemon, ARLES_TOKEN=TOKEN):
            arles.resume(1000)
            for _ in arles.track(steps_until(lambda: len(daemon.reports) >= 5), every=FAST):
                pass
        first, second, *later = daemon.reports
        self.assertEqual((first["steps"], first["rate"], second["rate"]), (1000.0, None, None))
        self.assertTrue(all(report["rate"] > 0.0 for report in later[:3]))
        self.assertEqual(sorted(report["steps"] for report in daemon.reports), [report["steps"] for report in daemon.reports])

    def test_steps_longer_than_the_period_are_neither_nothing_nor_twice_as_fast(self):
        with Daemon() as daemon, under(daemon):
            for _ in arles.track(range(8), every=0.05):
                time.sleep(0.2)
        rates = [report["rate"] for report in daemon.reports if report["rate"] is not None]
        self.assertTrue(rates)
        for rate in rates:  # a loaded machine sleeps longer, never shorter
            self.assertTrue(0.0 < rate < 1.05 / 0.2, rates)

    def test_a_job_named_in_the_code_and_resumed_before(self):
        with Daemon() as daemon, environment(ARLES_URL=daemon.url):
            arles.resume(70)
            self.assertEqual(list(arles.track([1, 2], job="mine")), [1, 2])
            self.assertTrue(daemon.wait(lambda reports: reports))
            self.assertEqual(arles.Tracker.current.steps, 72)
            with arles.Tracker(job="mine") as tracker:
                list(arles.track([1], job="mine"))
                self.assertEqual(tracker.steps, 1)
        self.assertEqual(daemon.reports[0]["steps"], 70.0)
        self.assertEqual(daemon.requests[0][0], "/v1/jobs/mine/progress")

    def test_what_was_not_yet_reported_is_when_the_tracker_closes(self):
        with Daemon() as daemon, under(daemon):
            with arles.Tracker(every=3600.0) as tracker:
                tracker.step()
                self.assertTrue(daemon.wait(lambda reports: reports))
                while tracker._reporter._delivered is None:  # the answer is on its way
                    pass
                tracker.step(41)
        self.assertEqual(daemon.reports[-1]["steps"], 42.0)

    def test_an_explicit_count(self):
        with Daemon() as daemon, under(daemon):
            arles.report(steps=500)
            self.assertTrue(daemon.wait(lambda reports: reports and reports[0]["steps"] == 500.0))
            arles.report(checkpointed=True)
            self.assertEqual(daemon.reports[-1]["checkpointed"], True)

    def test_only_rank_0_reports(self):
        for variables in [{"RANK": "1"}, {"SLURM_PROCID": "3"}, {"OMPI_COMM_WORLD_RANK": "2"}, {"RANK": "1", "SLURM_PROCID": "0"}]:
            with Daemon() as daemon, under(daemon, **variables):
                before = threading.active_count()
                self.assertEqual(list(arles.track([1, 2])), [1, 2])
                arles.report(checkpointed=True)
                self.assertEqual(threading.active_count(), before)
            self.assertEqual(daemon.reports, [], variables)

    def test_ranks(self):
        cases = [({}, 0), ({"RANK": "2"}, 2), ({"RANK": "x", "SLURM_PROCID": "3"}, 3), ({"RANK": "-1"}, 0), ({"RANK": ""}, 0)]
        for env, rank in cases:
            self.assertEqual(ranks.rank(env), rank, env)

    def test_a_hopeless_daemon_costs_a_line_and_no_step(self):
        def die(handler):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")

        echo = b'{"error": {"code": "x", "message": "your token ' + TOKEN.encode() + b' is bad", "hint": ""}}'
        with Daemon() as daemon:
            for answer in [(500, echo), (401, echo), (404, echo), (409, echo), (200, b"garbage"), die]:
                with self.subTest(answer=answer), under(daemon, ARLES_TOKEN=TOKEN), Log() as log:
                    daemon.answer = lambda _: answer
                    items = list(arles.track(steps_until(log.came.is_set), every=FAST))
                    self.assertEqual(items, list(range(len(items))))
                    self.assertEqual(len(log.lines), 1, log.lines)
                    self.assertTrue(log.lines[0].startswith("WARNING"))
                    self.assertNotIn(TOKEN, log.lines[0])
                    self.assertNotIn(TOKEN, repr(arles.Tracker.current) + repr(arles.track([])))
                    self.assertFalse(arles.should_stop())

    def test_no_thread_to_be_had(self):
        def refuse(_):
            raise RuntimeError("can't start new thread")

        start = threading.Thread.start
        with Daemon() as daemon, under(daemon), Log() as log:
            threading.Thread.start = refuse
            try:
                self.assertEqual(list(arles.track([1, 2, 3])), [1, 2, 3])
                arles.report(checkpointed=True)
            finally:
                threading.Thread.start = start
            self.assertEqual(len(log.lines), 1)


class Preemption(unittest.TestCase):
    def test_on_stop_once_in_the_training_thread_between_two_steps(self):
        calls = []
        inside = []
        with Daemon(stop_after(2)) as daemon, under(daemon):

            def on_stop():
                calls.append((threading.current_thread(), bool(inside), arles.Tracker.current.grace_seconds))

            with self.assertRaises(arles.Preempted) as caught:
                for _ in arles.track(steps_until(lambda: False), every=FAST, on_stop=on_stop):
                    inside.append(1)
                    inside.clear()
            self.assertEqual(caught.exception.code, 85)
            self.assertEqual(len(calls), 1)
            thread, in_step, grace = calls[0]
            self.assertIs(thread, threading.current_thread())
            self.assertFalse(in_step)
            self.assertTrue(0.0 < grace <= 30.0)
            last = daemon.reports[-1]
            self.assertEqual((last["checkpointed"], last["steps"]), (True, arles.Tracker.current.steps))
            self.assertTrue(arles.should_stop())
            with self.assertRaises(arles.Preempted):
                list(arles.track([1], on_stop=on_stop))
            self.assertEqual(len(calls), 1)
        self.assertIs(daemon.reports[-1], last)

    def test_without_raising_iteration_just_ends(self):
        calls = []
        with Daemon(stop_after(2)) as daemon, under(daemon):
            options = dict(every=FAST, on_stop=lambda: calls.append(1), raise_on_stop=False)
            for _ in arles.track(steps_until(lambda: False), **options):
                pass
            self.assertEqual(list(arles.track([1, 2], **options)), [])
        self.assertEqual(calls, [1])

    def test_without_on_stop_nothing_is_claimed_to_be_saved_until_it_is(self):
        with Daemon(stop_after(1)) as daemon, under(daemon):
            with self.assertRaises(arles.Preempted):
                list(arles.track(steps_until(lambda: False), every=FAST, exit_code=3))
            self.assertFalse(any(report["checkpointed"] for report in daemon.reports))
            arles.report(checkpointed=True)
            self.assertTrue(daemon.reports[-1]["checkpointed"])

    def test_what_was_saved_is_not_taken_back_by_the_next_report(self):
        with Daemon(stop_after(10_000)) as daemon, under(daemon):
            tracker = arles.Tracker.current = arles.Tracker(every=FAST)
            tracker.step()
            tracker.report(7, checkpointed=True)
            seen = len(daemon.reports)
            list(steps_until(lambda: len(daemon.reports) > seen + 1))
            self.assertTrue(all(report["checkpointed"] for report in daemon.reports[seen:]))
            tracker.step()
            list(steps_until(lambda: daemon.reports[-1]["steps"] == 8))
            self.assertFalse(daemon.reports[-1]["checkpointed"])

    def test_step_and_should_stop(self):
        with Daemon(stop_after(2)) as daemon, under(daemon):
            arles.Tracker.current = arles.Tracker(every=FAST)
            for _ in steps_until(arles.should_stop):
                arles.step()
            self.assertTrue(arles.should_stop())
            arles.step()  # does not raise: nobody gave an on_stop
            self.assertTrue(daemon.wait(lambda reports: len(reports) >= 2))

    def test_a_tracker_with_on_stop_ends_in_step(self):
        calls = []
        with Daemon(stop_after(2)) as daemon, under(daemon):
            with self.assertRaises(SystemExit) as caught, arles.Tracker(every=FAST, on_stop=lambda: calls.append(1)) as tracker:
                for _ in steps_until(lambda: False):
                    tracker.step()
        self.assertEqual((caught.exception.code, calls), (85, [1]))

    def test_what_on_stop_raises_comes_out_and_nothing_is_claimed(self):
        def on_stop():
            raise OSError("disk full")

        with Daemon(stop_after(1)) as daemon, under(daemon):
            with self.assertRaisesRegex(OSError, "disk full"):
                list(arles.track(steps_until(lambda: False), every=FAST, on_stop=on_stop))
            self.assertFalse(any(report["checkpointed"] for report in daemon.reports))

    def test_a_loader_that_breaks_once_a_stop_is_wished_does_not_cost_the_checkpoint(self):
        calls = []

        def loader():
            yield 1
            arles.Tracker.current.request_stop()
            raise RuntimeError("DataLoader worker is killed by signal: Terminated.")

        with Daemon() as daemon, under(daemon):
            with self.assertRaises(arles.Preempted):
                list(arles.track(loader(), on_stop=lambda: calls.append(1)))
        self.assertEqual(calls, [1])

    def test_a_daemon_that_hangs_at_the_end_is_not_waited_for(self):
        calls = []
        with Log(), Daemon(stop_after(1)) as daemon, under(daemon):

            def on_stop():
                daemon.answer = lambda _: daemon.hang
                calls.append(1)

            with self.assertRaises(arles.Preempted):
                list(arles.track(steps_until(lambda: False), every=FAST, on_stop=on_stop))
            self.assertFalse(daemon.released.is_set())  # we came back although it never answered
            daemon.released.set()
            for thread in threading.enumerate():
                if thread.name == "arles-last":
                    thread.join()
        self.assertEqual(calls, [1])

    def test_all_ranks_stop_at_the_same_step(self):
        wishes = []

        def agree(wish):
            wishes.append(wish)
            return len(wishes) == 4  # another rank wishes it by then

        with Daemon() as daemon, under(daemon, RANK="1"):
            taken = []
            with self.assertRaises(arles.Preempted):
                for item in arles.track(range(1000), agree=agree):
                    taken.append(item)
        self.assertEqual((wishes, len(taken)), ([False] * 4, 30))

    def test_a_wish_of_one_rank_waits_for_the_others(self):
        with Daemon() as daemon, under(daemon, RANK="1"):
            arles.track([])
            arles.Tracker.current.request_stop()
            wishes = []
            loader = arles.track(range(25), agree=lambda wish: wishes.append(wish))
            self.assertEqual((len(list(loader)), wishes), (25, [True] * 3))
            self.assertFalse(arles.should_stop())


class Fuzz(unittest.TestCase):
    def test_training_sees_nothing_of_a_mad_daemon(self):
        chance = random.Random(3)
        noise = [lambda: (chance.choice([200, 302, 401, 429, 500]), bytes(chance.randrange(256) for _ in range(chance.randrange(60))))]
        noise.append(lambda: {"action": chance.choice(["", "continue", "stop", 3, None, []]), "grace_seconds": chance.choice([1, "x", []])})
        noise.append(lambda: lambda handler: handler.wfile.write(bytes(chance.randrange(256) for _ in range(20))))
        with Daemon(lambda _: chance.choice(noise)()) as daemon, Log() as log:
            for _ in range(40):
                with under(daemon, ARLES_TOKEN=TOKEN):
                    seen = len(daemon.reports)
                    loader = steps_until(lambda: len(daemon.reports) > seen)
                    items = list(arles.track(loader, every=FAST, on_stop=self.fail))
                    self.assertEqual(items, list(range(len(items))))
        self.assertNotIn(TOKEN, "".join(log.lines))


if __name__ == "__main__":
    unittest.main()
