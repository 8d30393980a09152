"""`generate` of transformers: greedy, with a mask of ones and a DynamicCache, in two phases."""
import torch


class Phase:
    """The open one of the two phases: the second begins when the model's second forward pass is prepared."""

    def __init__(self, phases, model):
        self._phases = phases
        self._open = phases("generation.prefill")
        self._prepare = model.prepare_inputs_for_generation
        self._calls = 0
        model.prepare_inputs_for_generation = self._prepared

    def _prepared(self, *args, **kwargs):
        self._calls += 1
        if self._calls == 2:
            self.end()
            self._open = self._phases("generation.decode")
            self.begin()
        return self._prepare(*args, **kwargs)

    def begin(self):
        self._open.__enter__()

    def end(self):
        self._open.__exit__(None, None, None)


def generate(model, case, phases):
    model.eval()
    model.generation_config.eos_token_id = None  # Every sequence has its greatest length.
    model.generation_config.pad_token_id = 0
    asked = case["generate"]
    phase = Phase(phases, model)
    phase.begin()
    tokens = torch.randint(0, 100, (case.get("micro_batch", 1), case.get("seq", 2048)), device="cuda")
    mask = torch.ones_like(tokens) if asked.get("mask") else None
    output = model.generate(input_ids=tokens, attention_mask=mask, max_new_tokens=asked["new_tokens"], do_sample=False,
                            use_cache=True)
    del output, tokens, mask
    phase.end()
