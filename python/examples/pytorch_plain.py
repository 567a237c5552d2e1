"""Plain PyTorch with checkpoint and resume. Alone, or one process a GPU: torchrun --nproc-per-node 2 pytorch_plain.py

Lines that are there for arles are marked.
"""

import argparse
import os
import sys

import arles  # arles

try:
    import torch
except ImportError:
    sys.exit("This example needs PyTorch (pip install torch); examples/no_framework.py shows the same without.")


def save(path, model, optimizer, step):
    """Whole or not at all: a job that is killed while it saves must find the checkpoint before."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".new")
    os.replace(path + ".new", path)


def batches(start, steps, device):
    """Made-up data that depends on the step alone, so that a resumed run sees what an unbroken one would have seen."""
    for step in range(start, steps):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(64, 32, generator=generator)
        yield x.to(device), x.sum(dim=1, keepdim=True).to(device)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    options = parser.parse_args()

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else torch.device("cpu")
    if world > 1:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        if device.type == "cuda":
            torch.cuda.set_device(device)

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    if os.path.exists(options.checkpoint):
        state = torch.load(options.checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
        print(f"resumed at step {step}", flush=True)
    parallel = torch.nn.parallel.DistributedDataParallel(model) if world > 1 else model

    def on_stop():  # arles
        if rank == 0:
            save(options.checkpoint, model, optimizer, step)

    arles.resume(step)  # arles
    loader = batches(step, options.steps, device)
    for x, y in arles.track(loader, on_stop=on_stop, sigterm=True, agree=arles.any_rank if world > 1 else None):  # arles
        loss = torch.nn.functional.mse_loss(parallel(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 500 == 0 and rank == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    on_stop()
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
