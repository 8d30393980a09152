"""transformers' Trainer with Liger's kernels, which Triton compiles."""
import tempfile

import torch
from small_llama import Tokens, model
from transformers import Trainer, TrainingArguments

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=2, bf16=True, use_liger_kernel=True, max_steps=10,
                                  report_to=[], save_strategy="no")
    Trainer(model(torch.float32, "cpu"), arguments, train_dataset=Tokens()).train()
