_before, _after = [], []


def register_optimizer_step_pre_hook(hook):
    _before.append(hook)


def register_optimizer_step_post_hook(hook):
    _after.append(hook)


class Optimizer:
    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters)}]
        self.state = {}

    def step(self):
        for hook in _before:
            hook(self, (), {})
        from .. import Tensor

        for parameter in self.param_groups[0]["params"]:
            if parameter not in self.state:
                self.state[parameter] = {"exp_avg": Tensor(parameter.size)}
        for hook in _after:
            hook(self, (), {})

    def zero_grad(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None
