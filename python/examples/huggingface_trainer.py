"""The Trainer of Hugging Face's transformers, on a tiny model and made-up text: nothing is downloaded.

    python3 huggingface_trainer.py --steps 300 --output out

Started again after a preemption it resumes from its last checkpoint.
"""

import argparse
import sys

try:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint
except ImportError as error:
    sys.exit(f"This example needs PyTorch, transformers and accelerate ({error}): pip install torch transformers accelerate")

import os

from arles.huggingface import ArlesCallback


class Counting(torch.utils.data.Dataset):
    """Numbers in a row: text enough to be learnt."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        tokens = (torch.arange(32) + index) % 64
        return {"input_ids": tokens, "labels": tokens}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--output", default="out")
    parser.add_argument("--cpu", action="store_true", help="several processes without a GPU need to be told")
    parser.add_argument("--every", type=float, default=5.0)
    options = parser.parse_args()

    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2))
    arguments = TrainingArguments(
        output_dir=options.output,
        max_steps=options.steps,
        per_device_train_batch_size=8,
        logging_steps=50,
        save_steps=100,
        report_to=[],
        use_cpu=options.cpu,
        disable_tqdm=True,
    )
    callback = ArlesCallback(every=options.every, sigterm=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=Counting(), callbacks=[callback])
    last = get_last_checkpoint(options.output) if os.path.isdir(options.output) else None
    trainer.train(resume_from_checkpoint=last)
    print(f"done: {trainer.state.global_step} steps", flush=True)


if __name__ == "__main__":
    main()
