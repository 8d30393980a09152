"""A mixture of experts, whose experts are modules of a list before transformers 5: each of them is trained."""
import torch
import transformers

config = transformers.MixtralConfig(
    hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
    vocab_size=8192, num_local_experts=8, num_experts_per_tok=2, use_cache=False,
)
model = transformers.MixtralForCausalLM(config).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    tokens = torch.randint(0, config.vocab_size, (2, 1024), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    untrained = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert not untrained, untrained
    optimizer.step()
    optimizer.zero_grad()
