"""Records the snapshots of this folder with a real PyTorch.

    python record.py CASE FOLDER

The GPU may be a stand-in that only accounts memory. Names of files are shortened; nothing else of
what PyTorch returns is changed. figures.json gets what torch.cuda says of the same run.
"""
import json
import os
import pickle
import sys

case, folder = sys.argv[1:]
if case == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


def shortened(name, known={}):
    if name not in known:
        short = name
        for part in ("/site-packages/", "/Python-3.11.7/", "/lib/python3.11/"):
            if part in name:
                short = "/python" + part + name.split(part)[-1]
                break
        else:
            if name.endswith("record.py"):
                short = "/home/user/train.py"
        known[name] = short
    return known[name]


def dump(name):
    snapshot = torch.cuda.memory._snapshot()
    seen = set()
    for holder in [s for s in snapshot["segments"]] + [
        b for s in snapshot["segments"] for b in s["blocks"]] + [
        e for t in snapshot["device_traces"] for e in t]:
        for frame in holder.get("frames", []):
            if id(frame) not in seen:
                seen.add(id(frame))
                frame["filename"] = shortened(frame["filename"])
    path = os.path.join(folder, name + ".pickle")
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)
    stats = torch.cuda.memory_stats()
    figures = os.path.join(folder, "figures.json")
    known = json.load(open(figures)) if os.path.exists(figures) else {}
    known[name] = {key: stats[key] for key in (
        "allocated_bytes.all.peak", "allocated_bytes.all.current", "reserved_bytes.all.peak",
        "reserved_bytes.all.current", "active_bytes.all.current", "num_alloc_retries", "num_ooms")}
    json.dump(known, open(figures, "w"), indent=2, sort_keys=True)


def train(layers, width, rows, steps, keep=None, after=None):
    model = nn.Sequential(*[Block(width) for _ in range(layers)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        x = torch.randn(rows, width, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if keep is not None:
            keep.append(loss)
            keep.append(x * 2)
        if after is not None:
            after(step)


stacks = "python" if case in ("python_stacks", "leak") else "all"
torch.cuda.memory._record_memory_history(max_entries=100000, stacks=stacks)
if case == "leak":
    train(1, 256, 512, 6, keep=[], after=lambda step: dump(f"leak_{step}") if step in (1, 3, 5) else None)
elif case == "out_of_memory":
    try:
        train(2, 1024, 16384, 1)
    except torch.OutOfMemoryError:
        pass
    dump(case)
else:
    train(2, 768, 1300, 2)
    dump(case)
