"""PEFT's LoRA over weights in NF4, with a paged 8-bit optimizer of bitsandbytes."""
import tempfile

import bitsandbytes
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from small_llama import Tokens, model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

with tempfile.TemporaryDirectory() as folder:
    model(torch.bfloat16, "cpu").save_pretrained(folder)
    four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    net = AutoModelForCausalLM.from_pretrained(folder, quantization_config=four_bits, device_map={"": 0})
net = get_peft_model(prepare_model_for_kbit_training(net), LoraConfig(r=16, target_modules="all-linear"))
optimizer = bitsandbytes.optim.PagedAdamW8bit([p for p in net.parameters() if p.requires_grad], lr=1e-4)
for batch in torch.utils.data.DataLoader(Tokens(), batch_size=2):
    net(**{name: tensor.cuda() for name, tensor in batch.items()}).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
