def clip_grad_norm_(parameters, limit):
    from ... import Tensor

    return Tensor(512)
