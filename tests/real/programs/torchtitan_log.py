"""torchtitan 0.1.0's own training loop; only tokenizer and texts are made up here.

    torchrun torchtitan_log.py [OPTIONS of torchtitan]

The reserved memory that torchtitan logs for its last step is printed as `peak BYTES`.
"""
import base64
import itertools
import json
import os
import pathlib
import sys
import tempfile

WORDS = 128_000  # entries of Llama 3's vocabulary without its 256 special ones


def vocabulary():
    """A tokenizer file in tiktoken's format: all bytes, then pairs and triples of them."""
    entries = itertools.chain.from_iterable(itertools.product(range(256), repeat=size) for size in (1, 2, 3))
    return b"".join(base64.b64encode(bytes(entry)) + b" %d\n" % i
                    for i, entry in enumerate(itertools.islice(entries, WORDS)))


def write_texts(folder):
    folder.mkdir()
    text = json.dumps({"text": "the quick brown fox jumps over the lazy dog " * 500}) + "\n"
    (folder / "data.json").write_text(text * 400, encoding="utf-8")


def main():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"  # as torchtitan's launcher, run_train.sh
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "tokenizer.model").write_bytes(vocabulary())
        write_texts(folder / "texts")
        sys.argv[1:1] = [f"--model.tokenizer_path={folder / 'tokenizer.model'}", "--training.dataset=c4_test",
                         f"--training.dataset_path={folder / 'texts'}", f"--job.dump_folder={folder}",
                         "--metrics.log_freq=1", "--training.steps=3"]
        from torchtitan.components.metrics import DeviceMemoryMonitor
        from torchtitan.config_manager import ConfigManager
        from torchtitan.train import Trainer

        read, reserved = DeviceMemoryMonitor.get_peak_stats, []

        def remembered(self):
            stats = read(self)
            reserved.append(round(stats.max_reserved_gib * 2**30))
            return stats

        DeviceMemoryMonitor.get_peak_stats = remembered
        Trainer(ConfigManager().parse_args()).train()
        print(f"peak {reserved[-1]}", flush=True)


if __name__ == "__main__":
    main()
