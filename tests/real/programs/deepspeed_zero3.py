"""DeepSpeed ZeRO-3 with the optimizer on the device."""
import deepspeed
import torch
from small_llama import Tokens, model

settings = {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3},
            "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}}
net = model(torch.float32, "cpu")
engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=settings)
for batch in torch.utils.data.DataLoader(Tokens(), batch_size=2):
    loss = engine(**{name: tensor.cuda() for name, tensor in batch.items()}).loss
    engine.backward(loss)
    engine.step()
