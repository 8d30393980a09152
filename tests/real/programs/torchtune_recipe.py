"""torchtune's own recipes, started by its own `tune run`; only weights, tokenizer and texts are made up here.

    python torchtune_recipe.py RECIPE --config CONFIG [KEY=VALUE...]

The components that read files are replaced by those below. The recipe measures itself; the highest of the peaks that it
logs for its steps is printed as `peak BYTES`. Compilers begin with empty caches, as in a first run: what they allocate
while they try kernels belongs to the peak of the first step.
"""
import os
import sys
import tempfile

import torch
from torch.utils.data import Dataset

STEPS = 3
PACKS = 15  # enough for the steps of every row
SAMPLE = 128  # tokens of an example before packing; they change the mask, and no shape


class Checkpointer:
    """Has no weights: those of the model stay as they were made."""

    def __init__(self, **_files):
        pass

    def load_checkpoint(self):
        return {"model": {}}

    def save_checkpoint(self, *_state, **_epoch):
        pass


class Tokenizer:
    """Knows the length of a pack; nothing is tokenized."""

    pad_id = 0

    def __init__(self, max_seq_len, **_files):
        self.max_seq_len = max_seq_len


class Samples(Dataset):
    """As many random examples as fill all packs."""

    def __init__(self, length):
        self._count = PACKS * length // SAMPLE

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        if index >= self._count:
            raise IndexError(index)
        tokens = torch.randint(1, 1000, (SAMPLE,)).tolist()
        return {"tokens": tokens, "labels": tokens}


def packs(tokenizer, **_options):
    """torchtune's packed dataset of random examples."""
    from torchtune.datasets import PackedDataset

    return PackedDataset(Samples(tokenizer.max_seq_len), max_seq_len=tokenizer.max_seq_len)


class Peaks:
    """A metric logger that keeps the highest peak of active memory that the recipe reports for a step."""

    def __init__(self, **_files):
        self._peak = 0

    def log_config(self, _config):
        pass

    def log_dict(self, figures, step):
        active = round(figures["peak_memory_active"] * 2**30)
        print(f"step {step}: {active} bytes active")
        self._peak = max(self._peak, active)

    def close(self):
        print(f"peak {self._peak}", flush=True)


def load_nothing(self, _state, **_strict):
    """In place of load_state_dict: only what LoRA adds is missing, as after loading a model's own weights."""
    return [name for name in self.state_dict() if "lora" in name], []


def main():
    from torchtune._cli.tune import main as tune
    from torchtune.modules import TransformerDecoder

    TransformerDecoder.load_state_dict = load_nothing
    sys.argv = ["tune", "run", *sys.argv[1:], "checkpointer=torchtune_recipe.Checkpointer",
                "tokenizer=torchtune_recipe.Tokenizer", "dataset=torchtune_recipe.packs", "dataset.packed=True",
                "metric_logger=torchtune_recipe.Peaks", "gradient_accumulation_steps=1", "epochs=1",
                f"max_steps_per_epoch={STEPS}", "save_adapter_weights_only=True"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        tune()


if __name__ == "__main__":
    main()
