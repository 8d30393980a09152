"""transformers' Trainer: bf16 autocast, gradient checkpointing, accumulation, clipping."""
import tempfile

from small_llama import Tokens, model
from transformers import Trainer, TrainingArguments
import torch

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=2, gradient_accumulation_steps=2, bf16=True,
                                  gradient_checkpointing=True, max_steps=10, report_to=[], save_strategy="no")
    Trainer(model(torch.float32, "cpu"), arguments, train_dataset=Tokens()).train()
