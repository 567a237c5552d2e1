"""The pace of reports and what is in them, on a clock that the test sets."""

import random
import unittest

import standin  # noqa: F401 (puts the package on the path)
from arles.reporter import Count, Mark, Reporter
from arles.wire import Answer, Failure


class Bench:
    """A reporter whose clock, count and server are the test's."""

    def __init__(self, every=5.0):
        self.now = 100.0
        self.count = Count(0.0, 0)
        self.sent = []  # (when, body)
        self.stops = []
        self.fail = None
        self.answer = Answer(False, None)
        self.mark_wanted = False
        self.reporter = Reporter(
            self.post, lambda: self.count, self.stops.append, every, clock=lambda: self.now, ask_mark=self.ask_mark
        )

    def ask_mark(self):
        self.mark_wanted = True

    def post(self, body, _timeout_seconds):
        self.sent.append((self.now, body))
        if self.fail is not None:
            raise self.fail
        return self.answer

    def step(self, steps):
        """So many steps have just ended, and the training thread notes it if it was asked to."""
        mark, moved = self.count.mark, steps > 0.0
        steps += self.count.steps
        if self.mark_wanted and moved:
            self.mark_wanted = False
            mark = Mark(self.now, steps, self.count.origin)
        self.count = Count(steps, self.count.origin, mark)

    def live(self, seconds, step_seconds=0.5, rate=2.0):
        """Asks for a turn far more often than one is due."""
        end = self.now + seconds
        while self.now < end:
            self.reporter.turn()
            self.now += step_seconds
            self.step(rate * step_seconds)

    def rates(self):
        return [body["rate"] for _, body in self.sent]

    def times(self):
        return [when - 100.0 for when, _ in self.sent]


class Pace(unittest.TestCase):
    def test_never_more_than_one_report_in_every_seconds(self):
        bench = Bench()
        bench.live(60.0)
        self.assertEqual(bench.times(), [5.0 * k for k in range(12)])

    def test_says_when_to_ask_again(self):
        bench = Bench()
        self.assertEqual(bench.reporter.turn(), 5.0)
        bench.now += 2.0
        self.assertEqual(bench.reporter.turn(), 3.0)
        self.assertEqual(len(bench.sent), 1)

    def test_backs_off_to_five_minutes_and_comes_back(self):
        with standin.Log() as log:
            bench = Bench()
            bench.fail = OSError()
            bench.live(1500.0)
            times = bench.times()
            gaps = [b - a for a, b in zip(times, times[1:])]
            self.assertEqual(gaps, [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0])
            self.assertEqual(len(log.lines), 1, log.lines)
        bench.fail = None
        bench.sent.clear()
        bench.live(320.0)
        gaps = [b[0] - a[0] for a, b in zip(bench.sent, bench.sent[1:])]
        self.assertEqual(set(gaps), {5.0})

    def test_backoff_is_never_shorter_than_every(self):
        bench = Bench(every=60.0)
        bench.fail = Failure("status", "no")
        with standin.Log():
            bench.live(200.0)
        self.assertEqual(bench.times(), [0.0, 60.0, 120.0, 180.0])

    def test_stops_for_good_when_the_job_is_over(self):
        bench = Bench()
        bench.fail = Failure("over", "over", final=True)
        with standin.Log():
            self.assertIsNone(bench.reporter.turn())
        bench.fail = None
        bench.live(1000.0)
        self.assertEqual(len(bench.sent), 1)

    def test_one_line_for_each_kind_of_failure(self):
        bench = Bench()
        with standin.Log() as log:
            for failure in [Failure("a", "first"), Failure("b", "second"), Failure("a", "third"), KeyError("x"), ValueError()]:
                bench.fail = failure
                bench.live(301.0)
        self.assertEqual([line.split(";")[0] for line in log.lines][:2], ["WARNING first", "WARNING second"])
        self.assertEqual(len(log.lines), 3)


class Body(unittest.TestCase):
    def test_rate_is_null_until_there_are_two_marks_then_steps_per_second(self):
        bench = Bench()
        bench.live(17.0, rate=3.0)
        self.assertEqual(bench.rates(), [None, None, 3.0, 3.0])
        self.assertEqual([body["steps"] for _, body in bench.sent], [0.0, 15.0, 30.0, 45.0])
        self.assertTrue(all(body["checkpointed"] is False for _, body in bench.sent))

    def test_steps_longer_than_the_reporting_period_have_their_true_rate(self):
        bench = Bench()
        for tick in range(1, 601):  # a step every 12 s, a turn every 0.5 s
            bench.reporter.turn()
            bench.now += 0.5
            if tick % 24 == 0:
                bench.step(1.0)
        rates = [rate for rate in bench.rates() if rate is not None]
        self.assertGreater(len(rates), 15)
        for rate in rates:
            self.assertAlmostEqual(rate, 1.0 / 12.0)

    def test_no_rate_while_the_count_stands_still(self):
        bench = Bench()
        bench.live(20.0)
        known = len(bench.sent)
        bench.live(30.0, rate=0.0)
        self.assertEqual(set(bench.rates()[known + 1 :]), {None})

    def test_rate_spans_reports_that_were_lost(self):
        bench = Bench()
        bench.live(10.0)
        bench.fail = OSError()
        with standin.Log():
            bench.live(10.0)
        bench.fail = None
        bench.live(10.0)
        self.assertEqual(bench.sent[-1][1]["rate"], 2.0)

    def test_a_resume_and_a_count_that_falls_are_not_speed(self):
        bench = Bench()
        bench.live(10.0)
        bench.count = Count(1e6, 1, bench.count.mark)
        bench.live(10.0)
        bench.count = Count(10.0, 1, bench.count.mark)
        bench.live(10.0)
        self.assertEqual(bench.rates(), [None, None, None, None, 2.0, None], "2.0 was measured before the count fell")

    def test_neither_a_moment_nor_a_checkpoint_makes_a_rate(self):
        bench = Bench()
        bench.live(11.0)
        bench.reporter.last(checkpointed=False)  # its mark is 5 s after the one before
        bench.now += 0.5
        bench.step(1.0)
        bench.reporter.last(checkpointed=False)  # and this one 1 s
        bench.now += 60.0
        bench.reporter.last(checkpointed=True)
        self.assertEqual(bench.rates(), [None, None, 2.0, 2.0, None, None])
        self.assertEqual([body["checkpointed"] for _, body in bench.sent], [False] * 5 + [True])
        bench.live(16.0)
        self.assertEqual(bench.rates()[6:], [None, None, 2.0, 2.0], "the time of the checkpoint is in no rate")

    def test_a_count_that_is_no_number_is_not_sent(self):
        bench = Bench()
        bench.count = Count(float("nan"), 0)
        with standin.Log() as log:
            bench.reporter.turn()
        self.assertEqual((bench.sent, len(log.lines)), ([], 1))

    def test_a_wish_to_stop_is_passed_on(self):
        bench = Bench()
        bench.answer = Answer(True, 30.0)
        bench.reporter.turn()
        self.assertEqual(bench.stops, [30.0])


class NeverRaises(unittest.TestCase):
    def test_whatever_the_server_the_clock_and_the_count_do(self):
        chance = random.Random(7)
        errors = [OSError(), ValueError("x"), KeyError(), RecursionError(), MemoryError(), Failure("k", "s"), UnicodeError()]
        answers = [Answer(False, None), Answer(True, 1.0), None, 7, "continue", Answer("x", "y")]
        with standin.Log():
            for _ in range(300):
                bench = Bench()
                for _ in range(20):
                    bench.fail = chance.choice(errors + [None] * 5)
                    bench.answer = chance.choice(answers)
                    bench.now += chance.choice([-50.0, 0.0, 1.0, 400.0])
                    bench.count = Count(chance.choice([0.0, 1.0, -1.0, 1e308, -1e308, float("inf"), float("nan")]), chance.randrange(2))
                    pause = bench.reporter.turn()
                    self.assertTrue(pause is None or pause >= 0.0)


if __name__ == "__main__":
    unittest.main()
