"""TRL's SFTTrainer: LoRA on a small Llama, texts packed into sequences of 1,024 tokens."""
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig
from small_llama import model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

words = {f"w{i}": i for i in range(1000)} | {"<unk>": 1000, "<eos>": 1001, "<pad>": 1002}
base = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
base.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, unk_token="<unk>", eos_token="<eos>", pad_token="<pad>")
texts = Dataset.from_dict({"text": [" ".join(f"w{(i * j) % 1000}" for j in range(700)) for i in range(200)]})
with tempfile.TemporaryDirectory() as folder:
    arguments = SFTConfig(folder, per_device_train_batch_size=2, bf16=True, max_steps=10, max_length=1024, packing=True,
                          report_to=[], save_strategy="no")
    SFTTrainer(model(torch.bfloat16, "cpu"), arguments, train_dataset=texts, processing_class=tokenizer,
               peft_config=LoraConfig(r=16, target_modules="all-linear")).train()
