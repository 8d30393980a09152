"""What the programs of this folder train: a Llama of four layers with the sizes of Llama-3.2-1B, and random tokens."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def config():
    return LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=4, num_attention_heads=32,
                       num_key_value_heads=8, vocab_size=32000, use_cache=False)


def model(dtype=torch.bfloat16, device="cuda"):
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device(device):
        made = LlamaForCausalLM(config())
    torch.set_default_dtype(usual)
    return made


class Tokens(torch.utils.data.Dataset):
    """Rows of `length` tokens."""

    def __init__(self, rows=64, length=1024):
        self.tokens = torch.randint(0, 32000, (rows, length))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}
