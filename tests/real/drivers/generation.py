"""`generate` of transformers: greedy, with a mask of ones and a DynamicCache."""
import torch


def generate(model, case, phases):
    """Two phases: up to the second forward pass of the model, and from there on."""
    asked = case["generate"]
    open_phase = phases("generation.prefill")
    calls = 0

    def next_phase(*_):
        nonlocal open_phase, calls
        calls += 1
        if calls == 2:
            open_phase.__exit__(None, None, None)
            open_phase = phases("generation.decode")
            open_phase.__enter__()

    model.eval()
    hook = model.register_forward_pre_hook(next_phase)
    open_phase.__enter__()
    tokens = torch.randint(0, 100, (case.get("micro_batch", 1), case.get("seq", 2048)), device="cuda")
    mask = torch.ones_like(tokens) if asked.get("mask") else None
    with torch.no_grad():
        output = model.generate(input_ids=tokens, attention_mask=mask, max_new_tokens=asked["new_tokens"],
                                do_sample=False, use_cache=True)
    del output, tokens, mask
    open_phase.__exit__(None, None, None)
    hook.remove()
