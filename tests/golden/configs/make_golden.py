"""Asks transformers what it makes of configurations, for the golden test of the reader.

Usage: python make_golden.py [--check] FILE   (needs transformers 5.17.0 and torch; no GPU, no weights)

Reads the configurations of FILE and writes what the real model classes build from each, on torch's
meta device: parameters in all and per block, and what differs from block to block. With --check
nothing is written and differences are printed.
"""
import json
import sys

import torch
import transformers

ATTRIBUTES = {"hidden": ("hidden_size",), "heads": ("num_attention_heads",), "vocabulary": ("vocab_size",)}
UNIFORM_WINDOW = ("mistral", "mixtral", "phi3", "starcoder2", "qwen3_moe")
STACKS = ("model.layers", "transformer.h", "gpt_neox.layers", "model.decoder.layers", "bert.encoder.layer",
          "decoder.block")


def build(config):
    keys = dict(config)
    model_type = keys.pop("model_type")
    if model_type == "gemma3":
        keys, model_type = dict(keys["text_config"]), "gemma3_text"
        keys.pop("model_type", None)
    keys["pad_token_id"] = 0
    classes = {"bert": transformers.AutoModelForMaskedLM, "t5": transformers.AutoModelForSeq2SeqLM}
    model_class = classes.get(model_type, transformers.AutoModelForCausalLM)
    with torch.device("meta"):
        return model_class.from_config(transformers.AutoConfig.for_model(model_type, **keys))


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def blocks_of(model):
    for path in STACKS:
        module = model
        for step in path.split("."):
            module = getattr(module, step, None)
        if module is not None:
            return list(module)
    raise ValueError(type(model))


def windows_of(config, layers):
    window = getattr(config, "sliding_window", None)
    if config.model_type in UNIFORM_WINDOW:
        return [window] * layers
    types = getattr(config, "layer_types", None) or ["full_attention"] * layers
    return [window if kind == "sliding_attention" else None for kind in types]


def observe(config):
    model = build(config)
    blocks = blocks_of(model)
    seen = {name: getattr(model.config, key[0]) for name, key in ATTRIBUTES.items()}
    seen["parameters"] = size(model)
    seen["tied"] = bool(model.config.tie_word_embeddings)
    seen["blocks"] = [size(block) for block in blocks]
    seen["moe"] = [any("experts" in name for name, _ in block.named_modules()) for block in blocks]
    seen["windows"] = windows_of(model.config, len(blocks))
    return seen


def main(arguments):
    transformers.logging.set_verbosity_error()
    path = arguments[-1]
    with open(path) as file:
        document = json.load(file)
    differences = 0
    for case in document["cases"]:
        seen = observe(case["config"])
        if case.get("expected") != seen:
            differences += 1
            print("differs:", case["name"])
        case["expected"] = seen
    if "--check" in arguments:
        return 1 if differences else 0
    lines = [json.dumps(case) for case in document["cases"]]
    with open(path, "w") as file:
        file.write('{\n"source": ' + json.dumps(document["source"]) + ',\n"cases": [\n' + ",\n".join(lines) + "\n]\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
