"""What the observer answers or says because the GPU computes nothing."""

import types
import unittest

import support  # noqa: F401
from headroom_dryrun import frameworks, world
from headroom_dryrun.torch_hooks import TorchHooks


class Tensor:
    """A tensor on the GPU that reads as `number`."""

    def __init__(self, number=0.0, is_cuda=True, grad=None, elements=1 << 20):
        self.number, self.is_cuda, self.grad, self.requires_grad, self.elements = number, is_cuda, grad, True, elements

    def numel(self):
        return self.elements

    def element_size(self):
        return 4


class Hooks(unittest.TestCase):
    def setUp(self):
        self.said = []
        session = types.SimpleNamespace(guess=lambda what, where="": self.said.append(what))
        self.torch = types.SimpleNamespace(backends=types.SimpleNamespace(cudnn=types.SimpleNamespace(enabled=True)))
        self.hooks = TorchHooks.__new__(TorchHooks)
        self.hooks._session, self.hooks._torch = session, self.torch

    def test_a_step_count_on_the_gpu_is_never_zero(self):
        value = self.hooks._counting_from_one(lambda x: x.number)
        self.assertEqual([value(Tensor(0.0)), value(Tensor(3.0)), value(Tensor(0.0, is_cuda=False))], [1.0, 3.0, 0.0])
        self.assertEqual(self.said, ["a step count on the GPU is read as 1"])

    def test_a_step_count_that_a_compiler_reads_stays_a_tensor(self):
        tensor = Tensor()
        self.assertIs(self.hooks._counting_from_one(lambda x: x)(tensor), tensor)

    def test_parameters_without_gradient_are_said_with_their_size(self):
        optimizer = types.SimpleNamespace(param_groups=[{"params": [Tensor(grad=1), Tensor(), Tensor()]}])
        self.hooks._note_untouched(optimizer)
        self.assertIn("2 of 3 trained parameters (8 MiB) got no gradient", self.said[0])

    def test_a_step_in_which_every_parameter_has_a_gradient_says_nothing(self):
        self.hooks._note_untouched(types.SimpleNamespace(param_groups=[{"params": [Tensor(grad=1)]}]))
        self.assertEqual(self.said, [])

    def test_cudnn_is_switched_off_and_its_layers_are_named(self):
        self.hooks._leave_cudnn()
        self.assertFalse(self.torch.backends.cudnn.enabled)
        layer = type("Conv2d", (), {})
        self.hooks._note_cudnn(types.SimpleNamespace(modules=lambda: [layer(), layer(), object()]))
        self.assertEqual(self.said, ["Conv2d ran without cuDNN: workspaces are PyTorch's own"])

    def test_cudnn_attention_stays_off_where_the_program_allows_it(self):
        asked = []
        self.torch._C = types.SimpleNamespace(_set_sdp_use_cudnn=asked.append)
        self.hooks._leave_cudnn()
        self.torch._C._set_sdp_use_cudnn(False)
        self.torch._C._set_sdp_use_cudnn(True)
        self.assertEqual(asked, [False])
        self.assertEqual(self.said, ["The program allowed cuDNN's attention: another one ran in its place"])


class MaxLengthCriteria:
    """As in transformers.generation.stopping_criteria."""

    max_length = 4

    def __call__(self, input_ids, scores, **_):
        return "a tensor"


class GenerationMixin:
    """As in transformers.generation.utils: on the stand-in every value says that sequences go on."""

    def _has_unfinished_sequences(self, *_, **__):
        return True


class SyncedMixin:
    """The same when GPUs wait for each other: the sum over ranks reads as 0."""

    def _has_unfinished_sequences(self, this_peer_finished, synced_gpus, **_):
        return not synced_gpus


class Generation(unittest.TestCase):
    def test_generate_ends_at_its_greatest_length(self):
        self.generate(GenerationMixin, False)

    def test_generate_on_several_ranks_does_not_believe_a_sum_that_was_not_computed(self):
        self.generate(SyncedMixin, True)

    def generate(self, base, synced):
        said = []
        hooks = frameworks.hooks(types.SimpleNamespace(guess=lambda what, where="": said.append(what), torch_hooks=None))
        criteria = type("Criteria", (MaxLengthCriteria,), {"__call__": MaxLengthCriteria.__call__})
        mixin = type("Mixin", (base,), {"_has_unfinished_sequences": base._has_unfinished_sequences})
        hooks["transformers.generation.stopping_criteria"][0](types.SimpleNamespace(MaxLengthCriteria=criteria))
        hooks["transformers.generation.utils"][0](types.SimpleNamespace(GenerationMixin=mixin))
        length, criterion, model = 1, criteria(), mixin()
        while model._has_unfinished_sequences(False, synced):
            length += 1
            criterion(types.SimpleNamespace(shape=(1, length)), None)
            self.assertLessEqual(length, 4)
        self.assertEqual((length, said), (4, ["generate went on to its greatest length"]))
        self.assertTrue(model._has_unfinished_sequences(False, synced))


class Groups(unittest.TestCase):
    def test_only_groups_with_this_rank_are_announced(self):
        told = []
        device = types.SimpleNamespace(announce_group=lambda size, rank: told.append((size, rank)))
        c10d = types.SimpleNamespace(_new_process_group_helper=lambda size, rank, *rest: "group")
        world._announce_groups(types.SimpleNamespace(device=device), c10d)
        self.assertEqual(c10d._new_process_group_helper(8, 3, []), "group")
        self.assertEqual(c10d._new_process_group_helper(2, None, []), "group")
        self.assertEqual(told, [(8, 3)])


if __name__ == "__main__":
    unittest.main()
