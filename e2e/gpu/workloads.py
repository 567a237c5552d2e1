"""A dozen workloads of different appetite for one GPU, in plain PyTorch on random data.

    python workloads.py NAME [STEPS]   runs until it is stopped, or has done so many steps, and prints `step N` a few times a second
    python workloads.py --list         names

As a job of arles it also writes its steps where arles looks. Told to stop (SIGTERM) it leaves its count in NAME.steps of its folder and goes on from there the
next time; weights are random anyway.

Some fill the card (large matrices, wide convolutions), some are bound by memory (embeddings, decoding), some by the time it takes to launch kernels, and one
by its processor. None needs data or a network.
"""

import os
import pathlib
import signal
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

GPU = "cuda"
HALF = torch.bfloat16


def trained(model, batch, loss):
    """A training step of a model in bf16 with AdamW."""
    model = model.to(GPU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(GPU, HALF):
            value = loss(model, batch)
        value.backward()
        optimizer.step()

    return step


def encoder(width, layers, heads):
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def mean_square(model, batch):
    return model(batch).float().pow(2).mean()


def transformer_large():
    return trained(encoder(2048, 8, 16), torch.randn(16, 512, 2048, device=GPU), mean_square)


def transformer_small():
    return trained(encoder(512, 4, 8), torch.randn(8, 128, 512, device=GPU), mean_square)


def convolutions(channels, blocks):
    layers = [nn.Conv2d(3, channels, 7, 4, 3)]
    for _ in range(blocks):
        layers += [nn.Conv2d(channels, channels, 3, 1, 1), nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def images(batch, size):
    return torch.randn(batch, 3, size, size, device=GPU).to(memory_format=torch.channels_last)


def convolutions_wide():
    return trained(convolutions(256, 12), images(64, 224), mean_square)


def convolutions_batch_1():
    return trained(convolutions(64, 12), images(1, 256), mean_square)


def attention_over_pixels():
    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Conv2d(4, 320, 3, 2, 1)
            self.mid = encoder(320, 4, 8)
            self.up = nn.ConvTranspose2d(320, 4, 4, 2, 1)

        def forward(self, x):
            x = self.down(x)
            n, c, h, w = x.shape
            x = self.mid(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, c, h, w)
            return self.up(x)

    return trained(Denoiser(), torch.randn(8, 4, 64, 64, device=GPU), mean_square)


def lstm():
    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(10000, 650)
            self.cells = nn.LSTM(650, 650, 2, batch_first=True)
            self.out = nn.Linear(650, 10000)

        def forward(self, x):
            return self.out(self.cells(self.words(x))[0])

    words = torch.randint(10000, (64, 35), device=GPU)
    return trained(Language(), words, lambda m, x: F.cross_entropy(m(x).flatten(0, 1).float(), x.flatten()))


def recommendation():
    class Recommender(nn.Module):
        def __init__(self):
            super().__init__()
            self.items = nn.EmbeddingBag(8_000_000, 128, mode="sum", sparse=True)
            self.top = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1))

        def forward(self, x):
            return self.top(self.items(x))

    model = Recommender().to(GPU)
    batch = torch.randint(8_000_000, (65536, 32), device=GPU)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        mean_square(model, batch).backward()
        optimizer.step()

    return step


def decoding(width, layers, batch, context):
    """One token for each sequence: all weights and the whole cache are read."""
    weights = [torch.randn(width, 12 * width, device=GPU, dtype=HALF) for _ in range(layers)]
    cache = torch.randn(layers, batch, context, width, device=GPU, dtype=HALF)

    @torch.no_grad()
    def step():
        x = torch.randn(batch, width, device=GPU, dtype=HALF)
        for layer in range(layers):
            seen = torch.softmax((cache[layer] @ x.unsqueeze(2)).float(), 1).to(HALF)
            x = x + (cache[layer].transpose(1, 2) @ seen).squeeze(2)
            x = (x @ weights[layer]).view(batch, 12, width).mean(1)
            x = F.layer_norm(x, (width,))

    return step


def decoding_large():
    return decoding(4096, 24, 16, 2048)


def decoding_small():
    return decoding(1024, 12, 1, 256)


def matrices():
    a = torch.randn(8192, 8192, device=GPU, dtype=HALF)
    return lambda: torch.mm(a, a)


def graph():
    nodes, edges = 200_000, 4_000_000
    pairs = torch.randint(nodes, (2, edges), device=GPU)
    values = torch.rand(edges, device=GPU)
    adjacency = torch.sparse_coo_tensor(pairs, values, (nodes, nodes)).coalesce().to_sparse_csr()
    x = torch.randn(nodes, 64, device=GPU)
    weight = torch.randn(64, 64, device=GPU) / 8
    return lambda: torch.sparse.mm(adjacency, x @ weight)


def reinforcement():
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 8)).to(GPU)
    world = torch.randn(64, 64)

    @torch.no_grad()
    def step():
        nonlocal world
        for _ in range(4):
            world = torch.tanh(world @ torch.randn(64, 64) / 8)
        model(world.to(GPU)).argmax(1).cpu()

    return step


WORKLOADS = {
    "transformer-large": transformer_large,
    "transformer-small": transformer_small,
    "convolutions-wide": convolutions_wide,
    "convolutions-batch-1": convolutions_batch_1,
    "attention-over-pixels": attention_over_pixels,
    "lstm": lstm,
    "recommendation": recommendation,
    "decoding-large": decoding_large,
    "decoding-small": decoding_small,
    "matrices": matrices,
    "graph": graph,
    "reinforcement": reinforcement,
}


def tell(steps):
    """Where arles looks."""
    path = os.environ.get("ARLES_STEPS_FILE")
    if path:
        with open(path + ".new", "w") as file:
            file.write(str(steps))
        os.rename(path + ".new", path)


def main():
    if sys.argv[1:] == ["--list"]:
        return print("\n".join(WORKLOADS))
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in WORKLOADS:
        sys.exit(f"expected one of {', '.join(WORKLOADS)}, or --list")
    name, last = sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else float("inf")
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    torch.manual_seed(0)
    step = WORKLOADS[name]()
    saved = pathlib.Path(f"{os.environ.get('ARLES_JOB', name)}.steps")
    done = int(saved.read_text()) if last < float("inf") and saved.exists() else 0
    told = time.monotonic()
    # A few steps at a time: waiting for the GPU after each would measure the waiting.
    together = 1
    while done < last and not stopped:
        together = min(together, last - done)
        for _ in range(together):
            step()
        torch.cuda.synchronize()
        done += together
        passed = time.monotonic() - told
        if passed > 0.2:
            print(f"step {done}", flush=True)
            tell(done)
            told = time.monotonic()
        elif passed < 0.05:
            together = min(2 * together, 64)
    tell(done)
    if stopped:
        saved.write_text(str(done))
        sys.exit(85 if last < float("inf") else 143)


main()
