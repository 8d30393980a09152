"""One step of SFT of Qwen3.5's text model, as FakeGPU measured it on a real GPU: `qwen_sft.py 0.8b|2b [OPTIONS]`.

Recipe: FanBB2333/FakeGPU 7d5cf83 verification/qwen_sft_memory_worker.py, --mode real: bf16, AdamW without foreach, batch
of one sequence, labels masked in its first half, outputs kept until the end. It prints the peak of the phases.
"""
import argparse

import torch
import transformers

SIZES = {"0.8b": {"hidden_size": 1024, "intermediate_size": 3584}, "2b": {"hidden_size": 2048, "intermediate_size": 6144}}


def make_model(size, lora, checkpointing):
    config = transformers.Qwen3_5TextConfig(
        num_hidden_layers=24, num_attention_heads=8, num_key_value_heads=2, linear_num_value_heads=16,
        tie_word_embeddings=True, use_cache=False, **SIZES[size])
    config._attn_implementation = "sdpa"
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        model = transformers.Qwen3_5ForCausalLM(config)
    model.to_empty(device="cpu")
    torch.set_default_dtype(torch.float32)
    model.tie_weights()
    if lora:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, bias="none",
                                                 task_type="CAUSAL_LM", target_modules="all-linear"))
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if lora:
            model.enable_input_require_grads()
    return model.train().to("cuda")


def make_batch(sequence):
    tokens = torch.randint(100, 1000, (1, sequence))
    labels = tokens.clone()
    labels[:, :sequence // 2] = -100
    positions = torch.arange(sequence).view(1, 1, sequence).expand(3, 1, sequence).clone()
    return {"input_ids": tokens.cuda(), "labels": labels.cuda(), "position_ids": positions.cuda()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--sequence", type=int, default=16)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--checkpointing", action="store_true")
    arguments = parser.parse_args()
    model = make_model(arguments.size, arguments.lora, arguments.checkpointing)
    batches = [make_batch(arguments.sequence) for _ in range(arguments.accumulation)]
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, foreach=False)
    torch.cuda.reset_peak_memory_stats()
    for number, batch in enumerate(batches, start=1):
        outputs = model(**batch, use_cache=False)
        loss = outputs.loss / arguments.accumulation
        loss.backward()
        if number < len(batches):
            del outputs, loss
    optimizer.step()
    print("peak", torch.cuda.max_memory_allocated(), "parameters", sum(p.numel() for p in model.parameters()),
          "trained", sum(p.numel() for p in trained))


main()
