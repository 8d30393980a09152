"""torchtitan's own training loop with the configuration of Llama 3 8B; only tokenizer and texts are made up here.

    torchrun torchtitan_llama.py [OPTIONS of torchtitan]
"""
import json
import pathlib
import sys
import tempfile

from tokenizers import Tokenizer, models, pre_tokenizers

with tempfile.TemporaryDirectory() as folder:
    words = {f"w{i}": i for i in range(1000)} | {"<|begin_of_text|>": 1000, "<|end_of_text|>": 1001}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    tokenizer.save(f"{folder}/tokenizer.json")
    pathlib.Path(folder, "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>", "add_bos_token": True}))
    texts = pathlib.Path(folder, "texts")
    texts.mkdir()
    text = json.dumps({"text": " ".join(f"w{i % 1000}" for i in range(5000))}) + "\n"
    (texts / "data.json").write_text(text * 2000)
    sys.argv[1:1] = [f"--model.hf_assets_path={folder}", f"--training.dataset_path={texts}", f"--job.dump_folder={folder}"]
    from torchtitan import train  # It reads the command line when it is imported.

    train.main(train.Trainer)
