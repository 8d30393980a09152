from .optimizer import Optimizer
