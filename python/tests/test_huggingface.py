"""`ArlesCallback` against a trainer that calls it in the order of the real one.

The real one is tried by the test at the end where transformers is installed.
"""

import glob
import importlib
import importlib.util
import sys
import tempfile
import types
import unittest

from standin import CONTINUE, EXAMPLES, STOP, Daemon, environment, steps_until, under
import arles
from test_process import run


def load(transformers):
    """The module as it is with this transformers, or without any (``None``)."""
    before = sys.modules.get("transformers")
    sys.modules["transformers"] = transformers
    try:
        sys.modules.pop("arles.huggingface", None)
        return importlib.import_module("arles.huggingface")
    finally:
        sys.modules.pop("arles.huggingface", None)
        sys.modules.pop("transformers")
        if before is not None:
            sys.modules["transformers"] = before


def callback(**options):
    fake = types.ModuleType("transformers")
    fake.TrainerCallback = type("TrainerCallback", (), {})
    return load(fake).ArlesCallback(**options)


def train(callback, steps, start=0):
    """The calls of ``Trainer.train``; the steps at which it saved."""
    args = types.SimpleNamespace(world_size=1)
    state = types.SimpleNamespace(global_step=start)
    control = types.SimpleNamespace(should_save=False, should_training_stop=False)
    saved = []
    callback.on_train_begin(args, state, control, model=None)
    for _ in steps:
        state.global_step += 1
        callback.on_step_end(args, state, control, model=None)
        if control.should_save:
            control.should_save = False
            saved.append(state.global_step)
            callback.on_save(args, state, control, model=None)
        if control.should_training_stop:
            break
    try:
        callback.on_train_end(args, state, control, model=None)
    except arles.Preempted as preempted:
        return saved, preempted.code
    return saved, None


class Callback(unittest.TestCase):
    def test_outside_arles(self):
        with environment():
            self.assertEqual(train(callback(), range(20)), ([], None))

    def test_reports_the_global_step(self):
        with Daemon() as daemon, under(daemon):
            self.assertEqual(train(callback(every=0.02), steps_until(lambda: len(daemon.reports) >= 3), start=100), ([], None))
        self.assertEqual(daemon.reports[0]["steps"], 101.0)
        self.assertFalse(any(report["checkpointed"] for report in daemon.reports))

    def test_saves_stops_and_ends_with_85(self):
        with Daemon(lambda report: STOP if report["steps"] > 5 else CONTINUE) as daemon, under(daemon):
            saved, code = train(callback(every=0.02), steps_until(lambda: False))
            self.assertEqual(code, 85)
            self.assertEqual(len(saved), 1)
            claims = [report["steps"] for report in daemon.reports if report["checkpointed"]]
            self.assertEqual(claims, [float(saved[0])])

    def test_may_leave_the_exit_to_the_script(self):
        with Daemon(lambda _: STOP) as daemon, under(daemon):
            saved, code = train(callback(every=0.02, raise_on_stop=False), steps_until(lambda: False))
        self.assertEqual((len(saved), code), (1, None))

    def test_without_transformers_importing_works_and_using_says_what_is_missing(self):
        module = load(None)
        with self.assertRaisesRegex(ImportError, "pip install transformers"):
            module.ArlesCallback()


@unittest.skipUnless(all(importlib.util.find_spec(m) for m in ("torch", "transformers", "accelerate")), "transformers is not installed")
class RealTrainer(unittest.TestCase):
    def test_preempted_and_resumed(self):
        with tempfile.TemporaryDirectory() as folder, Daemon() as daemon:
            options = ["--output", folder, "--steps", 60, "--every", 0.05]
            daemon.answer = lambda report: STOP if report["steps"] >= 10 else CONTINUE
            first = run(EXAMPLES / "huggingface_trainer.py", daemon, options)
            self.assertEqual(first.returncode, 85, first.stderr)
            saved = max(int(path.rsplit("-", 1)[1]) for path in glob.glob(f"{folder}/checkpoint-*"))
            self.assertEqual([r["steps"] for r in daemon.reports if r["checkpointed"]], [float(saved)])
            daemon.answer = lambda _: CONTINUE
            seen = len(daemon.reports)
            second = run(EXAMPLES / "huggingface_trainer.py", daemon, options)
            self.assertEqual(second.returncode, 0, second.stderr)
            self.assertIn("done: 60 steps", second.stdout)
            self.assertGreater(daemon.reports[seen]["steps"], saved)


if __name__ == "__main__":
    unittest.main()
