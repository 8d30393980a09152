from . import utils


class Parameter:
    pass


class Module:
    last = None

    def __init__(self, *sizes):
        from .. import Tensor

        self._modules = {}
        self._parameters = [Tensor(size) for size in sizes]

    def modules(self):
        return iter([self])

    def parameters(self):
        return iter(self._parameters)

    def __call__(self, *args, **kwargs):
        from .. import Tensor

        Module.last = self
        kept = Tensor(kwargs.get("size", 4096))  # An activation; `loss` keeps it.
        loss = Tensor(512)
        loss.graph = kept
        return loss

    def zero_grad(self):
        for parameter in self._parameters:
            parameter.grad = None
