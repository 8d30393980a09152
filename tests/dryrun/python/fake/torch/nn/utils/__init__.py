from . import clip_grad
from .clip_grad import clip_grad_norm_
