def backward(tensor, *args, **kwargs):
    """Every parameter of the last module that was called gets a gradient; something is needed on the way."""
    from . import Tensor, nn

    temporary = Tensor(2048)
    for parameter in nn.Module.last.parameters():
        if parameter.grad is None:
            parameter.grad = Tensor(parameter.size)
    del temporary
