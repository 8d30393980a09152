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


class _Generation:
    """transformers' generate: its loop ends when a value on the GPU says so; here, at the greatest length."""

    def __init__(self, session: Any):
        self._session = session
        self._at_length = False

    def criteria_imported(self, module: Any) -> None:
        """Notes when a sequence has its greatest length, which Python knows."""
        criterion = getattr(module, "MaxLengthCriteria", None)
        if criterion is None:
            return
        original = criterion.__call__

        def call(this: Any, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            self._at_length = input_ids.shape[1] >= this.max_length
            return original(this, input_ids, scores, **kwargs)

        criterion.__call__ = call

    def generation_imported(self, module: Any) -> None:
        """Ends the loop there."""
        mixin = getattr(module, "GenerationMixin", None)
        if not hasattr(mixin, "_has_unfinished_sequences"):
            return
        original = mixin._has_unfinished_sequences

        def unfinished(this: Any, finished: Any, synced_gpus: bool = False, *args: Any, **kwargs: Any) -> bool:
            answer = original(this, finished, synced_gpus, *args, **kwargs)  # Asks the other ranks, too.
            if self._at_length:
                self._at_length = False
                self._session.guess("generate went on to its greatest length")
                return False
            return answer or synced_gpus and finished is not True

        mixin._has_unfinished_sequences = unfinished


def hooks(session: Any) -> Dict[str, List[Callable[[Any], None]]]:
    """Hooks by module."""
    generation = _Generation(session)
    return {
        "transformers.generation.stopping_criteria": [generation.criteria_imported],
        "transformers.generation.utils": [generation.generation_imported],
        "deepspeed.runtime.engine": [_deepspeed_engine(session)],
        "deepspeed.runtime.pipe.engine": [_deepspeed_pipeline(session)],
        "deepspeed.runtime.zero.utils": [_deepspeed_sizes(session)],
        "deepspeed.runtime.zero.partition_parameters": [_deepspeed_sizes(session)],
        "deepspeed.runtime.zero.partitioned_param_coordinator": [_deepspeed_sizes(session)],
        "megatron.core.optimizer.optimizer": [_megatron_optimizer(session)],
    }
