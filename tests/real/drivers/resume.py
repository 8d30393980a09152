"""Runs that resume: a first process trains one step and saves the optimizer's states, a second one loads them."""
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import torch

FILE = "optimizer.pt"


def saved_states(driver, case):
    """A temporary folder into which `save_states(case, folder)` of the module `driver` has written in a first process,
    which trains one step."""
    folder = tempfile.TemporaryDirectory()
    done = subprocess.run([sys.executable, "-W", "ignore", __file__, driver, folder.name], text=True, check=False,
                          input=json.dumps({**case, "steps": 1}), capture_output=True)
    if done.returncode:
        raise RuntimeError(f"the first process, which saves the states, failed: {done.stderr[-600:]}")
    return folder


def save_states(model, optimizer, case, folder):
    if case.get("parallel", {}).get("kind") == "fsdp2":
        from accelerate.utils.fsdp_utils import save_fsdp_optimizer

        save_fsdp_optimizer(*sharded(), optimizer, model, folder)
    else:
        torch.save(optimizer.state_dict(), pathlib.Path(folder) / FILE)


def load_states(model, optimizer, case, folder):
    """As Trainer does: from the host on one GPU, straight to the GPU under DDP, by accelerate under FSDP2."""
    kind = case.get("parallel", {}).get("kind")
    if kind == "fsdp2":
        from accelerate.utils.fsdp_utils import load_fsdp_optimizer

        load_fsdp_optimizer(*sharded(), optimizer, model, folder)
        return
    place = torch.device("cuda", torch.cuda.current_device()) if kind else "cpu"
    optimizer.load_state_dict(torch.load(pathlib.Path(folder) / FILE, map_location=place, weights_only=True))


def sharded():
    """accelerate's plugin for sharded state dicts, and what its functions ask of an Accelerator."""
    from accelerate import FullyShardedDataParallelPlugin, PartialState

    PartialState()  # accelerate's log asks for it.
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type="SHARDED_STATE_DICT")
    return plugin, types.SimpleNamespace(process_index=torch.distributed.get_rank(), wait_for_everyone=lambda: None)


if __name__ == "__main__":
    importlib.import_module(sys.argv[1]).save_states(json.load(sys.stdin), sys.argv[2])
