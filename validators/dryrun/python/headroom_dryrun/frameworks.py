"""Frameworks with a backward pass or an optimizer step of their own: DeepSpeed and Megatron-Core."""

from typing import Any, Callable, Dict, List


def _around_engine(session: Any, engine: type) -> None:
    """DeepSpeedEngine: `backward` reduces gradients after autograd's pass; `step` may only count a micro-batch."""
    hooks = session.torch_hooks
    engine.backward = hooks.around_backward(engine.backward)

    def at_boundary(self: Any) -> bool:
        return bool(self.is_gradient_accumulation_boundary())

    engine.step = hooks.around_engine_step(engine.step, at_boundary)


def _deepspeed_engine(session: Any) -> Callable[[Any], None]:
    return lambda module: _around_engine(session, module.DeepSpeedEngine)


def _deepspeed_pipeline(session: Any) -> Callable[[Any], None]:
    """PipelineEngine.train_batch runs a whole step; its optimizer step ends the phase."""

    def imported(module: Any) -> None:
        engine = module.PipelineEngine
        if hasattr(engine, "_exec_optimizer_step"):
            wrapped = session.torch_hooks.around_engine_step(engine._exec_optimizer_step, lambda self: True)
            engine._exec_optimizer_step = wrapped
            instructions = getattr(engine, "_INSTRUCTION_MAP", {})
            for key, value in list(instructions.items()):
                if getattr(value, "__name__", "") == "_exec_optimizer_step":
                    instructions[key] = wrapped

    return imported


def _deepspeed_sizes(session: Any) -> Callable[[Any], None]:
    """Lists that rank 0 would have sent, and comparisons with other ranks, hold what this rank holds."""

    def imported(module: Any) -> None:
        if session.settings.world is None:
            return
        for name, answer in (
            ("get_lst_from_rank0", lambda values: values),
            ("assert_ints_same_as_other_ranks", lambda values: None),
            ("assert_lst_len_same_as_other_ranks", lambda values: None),
        ):
            if hasattr(module, name):
                setattr(module, name, answer)

    return imported


def _megatron_optimizer(session: Any) -> Callable[[Any], None]:
    """MegatronOptimizer.step holds clipping, the inner step and the all-gather of parameters."""

    def imported(module: Any) -> None:
        for value in list(vars(module).values()):
            if isinstance(value, type) and "step" in vars(value) and value.__module__ == module.__name__:
                if not getattr(value.step, "__isabstractmethod__", False):
                    value.step = session.torch_hooks.around_engine_step(value.step, lambda self: True)

    return imported


def hooks(session: Any) -> Dict[str, List[Callable[[Any], None]]]:
    """Hooks by module."""
    return {
        "deepspeed.runtime.engine": [_deepspeed_engine(session)],
        "deepspeed.runtime.pipe.engine": [_deepspeed_pipeline(session)],
        "deepspeed.runtime.zero.utils": [_deepspeed_sizes(session)],
        "deepspeed.runtime.zero.partition_parameters": [_deepspeed_sizes(session)],
        "deepspeed.runtime.zero.partitioned_param_coordinator": [_deepspeed_sizes(session)],
        "megatron.core.optimizer.optimizer": [_megatron_optimizer(session)],
    }
