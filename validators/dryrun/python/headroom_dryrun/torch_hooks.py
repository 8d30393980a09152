"""Where the program calls into PyTorch: backward passes, optimizer steps, the first forward."""

import functools
import importlib
import sys
import time
from typing import Any, Callable

from . import program


def _now() -> int:
    """Microseconds since 1970, as the allocator's history writes them."""
    return int(time.time() * 1e6)


class TorchHooks:
    """Wraps the few functions that mark the ends of phases."""

    def __init__(self, session: Any):
        self._session = session
        self._torch = session.torch
        self._backward_depth = 0
        self.step_depth = 0  # Inside the step of a framework's engine: the steps of its parts are not steps.
        self._waiting = False
        self._stepped: set = set()
        self._expected = 0
        session.torch_hooks = self

    def install(self) -> None:
        """Puts the hooks in; each is optional."""
        parts = (self._wrap_backward, self._hook_optimizers, self._wrap_clipping, self._wrap_zero_grad, self._leave_cudnn, self._watch_autocast, self.await_forward)
        for put in parts:
            try:
                put()
            except Exception as error:
                self._session.report_failure(put.__name__.strip("_"), error)

    def guarded(self, function: Callable[..., None], *args: Any) -> None:
        """Calls `function`; what it raises is reported and goes no further."""
        if self._session.done:
            return
        try:
            function(*args)
        except Exception as error:
            self._session.report_failure(function.__name__, error)

    # Backward

    def _wrap_backward(self) -> None:
        autograd = self._torch.autograd
        autograd.backward = self.around_backward(autograd.backward)

    def around_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original` with the ends of a backward phase; a call inside another one adds nothing."""

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._compiling():
                return original(*args, **kwargs)
            self._backward_depth += 1
            if self._backward_depth == 1:
                self.guarded(self._session.phases.backward_begins)
            try:
                return original(*args, **kwargs)
            finally:
                self._backward_depth -= 1
                if self._backward_depth == 0:
                    self.guarded(self._session.phases.backward_ends)

        return backward

    def _compiling(self) -> bool:
        compiler = getattr(self._torch, "compiler", None)
        return bool(compiler is not None and compiler.is_compiling())

    # Optimizer

    def _hook_optimizers(self) -> None:
        module = importlib.import_module("torch.optim.optimizer")  # torch.optim hides it.
        module.register_optimizer_step_pre_hook(self._before_step)
        module.register_optimizer_step_post_hook(self._after_step)
        module.Optimizer.__init__ = self._around_init(module.Optimizer.__init__)
        for optimizer in [m for name, m in sys.modules.items() if name.startswith("torch.optim.")]:
            if hasattr(optimizer, "_get_value"):
                optimizer._get_value = self._counting_from_one(optimizer._get_value)

    def _counting_from_one(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A step count that was loaded onto the GPU reads as 0 there, and optimizers divide by what follows from it."""

        def value(x: Any) -> Any:
            number = original(x)
            if number is x or number or not getattr(x, "is_cuda", False):
                return number  # `number is x`: a compiler reads the program, and there is no number yet.
            self._session.guess("a step count on the GPU is read as 1")
            return 1.0

        return value

    def _around_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def init(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            self.guarded(self._session.phases.optimizer_made)

        return init

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self.step_depth:
            self.guarded(self._session.phases.step_begins)
            self.guarded(self._note_untouched, optimizer)
            self.guarded(self._session.categories.see_optimizer, optimizer, _now(), False)
        self.guarded(program.recognise_optimizer, self._session, optimizer)

    def _note_untouched(self, optimizer: Any) -> None:
        """Names parameters that got no gradient: a mixture that chooses experts by values leaves most out here."""
        trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        without = [p for p in trained if p.grad is None]
        if without and len(without) < len(trained):
            size = sum(p.numel() * p.element_size() for p in without)
            self._session.guess(
                f"{len(without)} of {len(trained)} trained parameters ({size / 2**20:.0f} MiB) got no gradient and no optimizer"
                " state: if values choose what is trained, such as experts, a real run needs more memory"
            )

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.guarded(self._session.categories.see_optimizer, optimizer, _now(), True)
        if not self.step_depth:
            self.guarded(self.step_ended, optimizer)

    def step_ended(self, optimizer: Any) -> None:
        """`optimizer` has stepped. The program stops here if no other optimizer of this step is expected."""
        session = self._session
        if session.phases.name == "off":
            return
        if id(optimizer) in self._stepped and session.phases.name == "end":
            session.phases.next_forward()  # The same optimizer again: another step without a forward pass that we saw.
        if session.phases.name != "end":
            self._expected = len(self._stepped)
            self._stepped = set()
        self._stepped.add(id(optimizer))
        session.phases.step_ends()
        session.survived_memory_error()
        if len(self._stepped) >= self._expected and self._expected:
            session.step_ended()
        self.await_forward()  # In the first step it shows there whether another optimizer followed.

    def around_engine_step(self, original: Callable[..., Any], stepped: Callable[..., bool]) -> Callable[..., Any]:
        """`original`, the step of an engine that has optimizers inside; `stepped(engine, before)` says if it did one."""

        @functools.wraps(original)
        def step(engine: Any, *args: Any, **kwargs: Any) -> Any:
            will = stepped(engine)
            if will and self.step_depth == 0:
                self.guarded(self._session.phases.step_begins)
            self.step_depth += 1
            try:
                result = original(engine, *args, **kwargs)
            finally:
                self.step_depth -= 1
            if will and self.step_depth == 0:
                self.guarded(self.step_ended, engine)
            return result

        return step

    def _wrap_clipping(self) -> None:
        """Clipping and the removal of the loss scale begin the optimizer's phase."""
        for module in (self._torch.nn.utils, self._torch.nn.utils.clip_grad):
            for name in ("clip_grad_norm_", "clip_grad_value_", "get_total_norm"):
                if hasattr(module, name):
                    setattr(module, name, self._beginning_step(getattr(module, name)))
        for module_name in ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler"):
            scaler = getattr(sys.modules.get(module_name), "GradScaler", None)
            for name in ("unscale_", "step"):
                if scaler is not None and name in vars(scaler):
                    setattr(scaler, name, self._beginning_step(vars(scaler)[name]))

    def _beginning_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def first(*args: Any, **kwargs: Any) -> Any:
            if not self._compiling() and not self.step_depth:
                self.guarded(self._session.phases.step_begins)
            return original(*args, **kwargs)

        return first

    def _wrap_zero_grad(self) -> None:
        for owner in (self._torch.optim.Optimizer, self._torch.nn.Module):
            owner.zero_grad = self._around_zero_grad(owner.zero_grad)

    def _around_zero_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def zero_grad(*args: Any, **kwargs: Any) -> Any:
            if self._compiling() or self.step_depth:
                return original(*args, **kwargs)
            self.guarded(self._session.phases.clearing_begins)
            result = original(*args, **kwargs)
            self.guarded(self._session.phases.clearing_ends)
            return result

        return zero_grad

    # cuDNN

    _CUDNN_LAYERS = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "BatchNorm1d", "BatchNorm2d", "LSTM", "GRU", "RNN")

    def _leave_cudnn(self) -> None:
        """The stand-in has no cuDNN: PyTorch's own convolutions, normalisations, recurrent layers and attention run."""
        self._torch.backends.cudnn.enabled = False
        c = getattr(self._torch, "_C", None)
        if not hasattr(c, "_set_sdp_use_cudnn"):
            return
        c._set_sdp_use_cudnn(False)

        def keep_off(wanted: bool) -> None:
            if wanted:
                self._session.guess("The program allowed cuDNN's attention: another one ran in its place")

        c._set_sdp_use_cudnn = keep_off

    def _note_cudnn(self, module: Any) -> None:
        names = sorted({type(m).__name__ for m in module.modules()} & set(self._CUDNN_LAYERS))
        if names:
            self._session.guess(f"{', '.join(names)} ran without cuDNN: workspaces are PyTorch's own")

    # Forward

    def _watch_autocast(self) -> None:
        """Accelerate and Trainer enter autocast inside the call of the module, so that its first call does not show it."""
        modes = sys.modules.get("torch.amp.autocast_mode")
        if modes is None:
            return
        autocast = modes.autocast
        original = autocast.__enter__
        hooks = self

        @functools.wraps(original)
        def enter(self: Any) -> Any:
            hooks.guarded(program.recognise_autocast, hooks._session, self)
            return original(self)

        autocast.__enter__ = enter

    def await_forward(self) -> None:
        """Waits for the next call of a module from outside; the wrapper takes itself away at that call.

        A global forward hook would do the same, but torch.compile warns of those."""
        if self._waiting:
            return
        module_class = self._torch.nn.Module
        original = module_class.__call__
        hooks = self

        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not hooks._compiling() and hooks._torch.cuda.is_initialized():
                module_class.__call__ = original
                hooks._waiting = False
                hooks.guarded(hooks._first_forward, self, args, kwargs)
            return original(self, *args, **kwargs)

        module_class.__call__ = call
        self._waiting = True

    def _first_forward(self, module: Any, args: Any, kwargs: Any) -> None:
        session = self._session
        if session.phases.name == "end":
            session.step_ended()
        session.phases.next_forward()
        session.phases.forward()
        self._note_cudnn(module)
        program.recognise(session, module, args, kwargs)
