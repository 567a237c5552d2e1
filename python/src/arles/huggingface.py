"""`ArlesCallback`: the same for the ``Trainer`` of Hugging Face's transformers.

    trainer = Trainer(..., callbacks=[ArlesCallback()])
    trainer.train(resume_from_checkpoint=last_checkpoint)

When the job must make room the trainer saves a checkpoint, as at any ``save_steps``, ends training, and `Preempted` comes out of
``train()``: what the script does with a finished model must not be done with a half-trained one.

Must never: make ``import arles`` need transformers. Only making an `ArlesCallback` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from .ranks import any_rank
from .settings import EVERY_SECONDS, PREEMPTED_EXIT_CODE
from .tracker import AGREE_EVERY_STEPS, Preempted, Tracker

_MISSING: Optional[ImportError] = None
if TYPE_CHECKING:
    _Base = object
else:
    try:
        from transformers import TrainerCallback as _Base
    except ImportError as error:
        _MISSING = error
        _Base = object


class ArlesCallback(_Base):
    """Reports the trainer's ``global_step``. The options are those of `arles.Tracker`; saving is the trainer's business."""

    def __init__(
        self,
        *,
        every: float = EVERY_SECONDS,
        job: Optional[str] = None,
        sigterm: bool = False,
        raise_on_stop: bool = True,
        exit_code: int = PREEMPTED_EXIT_CODE,
    ) -> None:
        if _MISSING is not None:
            raise ImportError(f"ArlesCallback needs transformers ({_MISSING}): pip install transformers") from _MISSING
        super().__init__()
        self._every = every
        self._job = job
        self._sigterm = sigterm
        self._raise_on_stop = raise_on_stop
        self._exit_code = exit_code
        self._tracker: Optional[Tracker] = None
        self._together = False
        self._stopping = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._tracker = Tracker(every=self._every, job=self._job, sigterm=self._sigterm)
        self._tracker.resume(state.global_step)
        self._stopping = False
        # Every rank has this callback, but maybe not every one the environment: asked once, so that all ranks ask later, or none does.
        self._together = getattr(args, "world_size", 1) > 1 and any_rank(self._tracker.active)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        tracker = self._tracker
        if tracker is None or self._stopping:
            return control
        tracker.report(state.global_step)
        wish = tracker.should_stop()
        if self._together:
            wish = state.global_step % AGREE_EVERY_STEPS == 0 and any_rank(wish)
        if wish:
            self._stopping = True
            control.should_save = True
            control.should_training_stop = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._stopping and self._tracker is not None:
            self._tracker.report(state.global_step, checkpointed=True)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._tracker is not None:
            self._tracker.close()
        if self._stopping and self._raise_on_stop:
            raise Preempted(self._exit_code)
