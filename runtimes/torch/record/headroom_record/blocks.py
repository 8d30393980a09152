"""What operators allocate inside themselves, from the allocator's own history."""

from typing import Any, Dict, List, Optional, Tuple

import torch

# cuBLAS's and cuBLASLt's workspaces (at::cuda::getChosenWorkspaceSize): the engine knows them.
_WORKSPACES = (32 * 1024 * 1024, 8519680, 4096 * 1024, 1024 * 1024)
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "linear", "addmv", "mv", "dot", "_addmm_activation")

# cuDNN runs them on a GPU, and PyTorch's own code on the stand-in, whose temporaries are others.
CONVOLUTIONS = ("convolution", "convolution_backward")


def cudnn_copies(tensors: List[Optional[torch.Tensor]]) -> List[Any]:
    """The copies that PyTorch makes for cuDNN, of what is not contiguous (native/cudnn/ConvShared.cpp)."""
    sizes = [one.numel() * one.element_size() for one in tensors if one is not None and not one.is_contiguous()]
    return [[(size,), number] for number, size in enumerate(sizes)]


def start() -> None:
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=10_000_000, clear_history=True)


def _events() -> Dict[int, List[Tuple[str, int, int]]]:
    events: Dict[int, List[Tuple[str, int, int]]] = {}
    for entry in torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]:
        mark = entry["user_metadata"]
        if mark and entry["action"] in ("alloc", "free_completed"):
            events.setdefault(int(mark), []).append((entry["action"], entry["addr"], entry["size"]))
    return events


def write_inside(windows: List[Tuple[Optional[List[Any]], List[Tuple[int, int]]]]) -> None:
    """Adds "inside" to the instructions that allocate more than their outputs, or in another order."""
    events = _events()
    torch.cuda.memory._record_memory_history(enabled=None)
    for mark, inside in events.items():
        instruction, blocks = windows[mark]
        if instruction is None:
            continue
        written = _inside(instruction[1], inside, {address: position for position, address in blocks})
        natural = [f"new {position}" for position, address in blocks if address]
        if written != natural:
            instruction[4]["inside"] = written


def _inside(name: str, events: List[Tuple[str, int, int]], outputs: Dict[int, int]) -> List[Any]:
    last = {address: at for at, (action, address, _) in enumerate(events) if action == "alloc"}
    freed = {address for action, address, _ in events if action == "free_completed"}
    live: Dict[int, int] = {}
    written: List[Any] = []
    count = 0
    for at, (action, address, size) in enumerate(events):
        if action == "alloc":
            if address in outputs and last[address] == at:
                written.append(f"new {outputs[address]}")
            elif address in freed and not (name in _PRODUCTS and size in _WORKSPACES):
                written.append([(size,), count])
                live[address] = count
                count += 1
        elif address in live:
            written.append(["free", live.pop(address)])
    return written
