"""Records small models, and compares what their recordings say of another size with what the allocator did."""
import gc
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[3] / "runtimes/torch/record")]

import torch
import transformers

import recordings
from headroom_record import recording

gc.disable()
torch.backends.cuda.enable_cudnn_sdp(False)
SMALL = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000}
MODELS = [{"model_type": "llama"}, {"model_type": "gemma2", "sliding_window": 700},
          {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}]


def measured(model, micro_batch, sequence, autocast):
    """Requested bytes: peak and end of the forward pass, peak and end of the backward pass."""
    def requested(which):
        return torch.cuda.memory_stats()[f"requested_bytes.all.{which}"] - before

    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    tokens = torch.zeros(micro_batch, sequence, dtype=torch.long, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
        output = model(input_ids=tokens, labels=tokens)
    loss = output.loss
    del output
    figures = [requested("peak"), requested("current")]
    torch.cuda.reset_peak_memory_stats()
    loss.backward()
    del loss, tokens
    figures += [requested("peak"), requested("current")]
    model.zero_grad(set_to_none=True)
    return figures


for settings in MODELS:
    fields = {**SMALL, **settings}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(fields, file)
        file.flush()
        text = recording.record(file.name, [recording.Mode("bf16"), recording.Mode("fp32/bf16")], None)
        again = recording.record(file.name, [recording.Mode("bf16"), recording.Mode("fp32/bf16")], None)
        assert text == again, f"{settings}: another recording of the same model has other text"
    written = json.loads(text)
    for dtype, autocast in ((torch.bfloat16, False), (torch.float32, True)):
        config = transformers.AutoConfig.for_model(**fields)
        config.use_cache = False
        torch.set_default_dtype(dtype)
        with torch.device("cuda"):
            model = transformers.AutoModelForCausalLM.from_config(config)
        torch.set_default_dtype(torch.float32)
        model.train()
        measured(model, 1, 64, autocast)
        for micro_batch, sequence in ((4, 640), (1, 100), (2, 345), (2, 1024)):
            real = measured(model, micro_batch, sequence, autocast)
            told = recordings.step(written, micro_batch, sequence, "bf16" if autocast else None)
            assert real == told, f"{settings}, {micro_batch} x {sequence}, autocast {autocast}: {real}, recorded {told}"
        del model
