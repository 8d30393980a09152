"""What is recognised of the plan from the first call of a module."""

import types
import unittest

import support  # noqa: F401
from headroom_dryrun import program


class Config:
    def to_dict(self):
        return {"model_type": "llama", "hidden_size": 64, "dtype": complex}


def model(**more):
    made = type("LlamaForCausalLM", (), {})()
    made._modules = {}
    made.parameters = lambda: iter([types.SimpleNamespace(dtype="torch.bfloat16")])
    for name, value in more.items():
        setattr(made, name, value)
    return made


class Recognise(unittest.TestCase):
    def recognised(self, module, *args, **kwargs):
        session = types.SimpleNamespace(program={}, oom=None, batch=[], categories=types.SimpleNamespace(see_model=lambda *a: None))
        program.recognise(session, module, args, kwargs)
        return session.program

    def test_configuration_type_and_shape(self):
        ids = types.SimpleNamespace(shape=(2, 512), dtype="torch.int64")
        found = self.recognised(model(config=Config()), input_ids=ids)
        self.assertEqual((found["model_type"], found["config"]["hidden_size"]), ("llama", 64))
        self.assertEqual((found["param_dtype"], found["micro_batch"], found["sequence"]), ("bfloat16", 2, 512))

    def test_the_model_inside_wrappers(self):
        adapter = types.SimpleNamespace(r=8, lora_alpha=16, target_modules={"v_proj", "q_proj"})
        inner = model(config=Config(), is_gradient_checkpointing=True, peft_config={"default": adapter})
        outer = type("DistributedDataParallel", (), {})()
        outer._modules = {"module": inner}
        outer.parameters = inner.parameters
        found = self.recognised(outer)
        self.assertEqual((found["wrapper"], found["checkpointing"]), ("ddp", True))
        self.assertEqual(found["lora"], {"r": 8, "alpha": 16, "targets": ["q_proj", "v_proj"]})

    def test_autocast_of_the_gpu(self):
        session = types.SimpleNamespace(program={})
        for device, enabled, dtype in (("cpu", True, "torch.bfloat16"), ("cuda", False, "torch.float16"), ("cuda", True, "torch.bfloat16")):
            program.recognise_autocast(session, types.SimpleNamespace(device=device, _enabled=enabled, fast_dtype=dtype))
        self.assertEqual(session.program, {"autocast": "bfloat16"})

    def test_a_tensor_of_numbers_is_no_sequence(self):
        images = types.SimpleNamespace(shape=(64, 1024), dtype="torch.float32")
        self.assertNotIn("sequence", self.recognised(model(), images))
