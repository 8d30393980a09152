"""Tokens of each expert and the rows of a nonzero: values that the stand-in is told."""

import gc
import types
import unittest

import support  # noqa: F401
from headroom_dryrun import known


class Tensor:
    """A contiguous tensor on the GPU."""

    requires_grad = False
    is_cuda = True

    def __init__(self, shape, dtype, address=4096):
        self.shape, self.dtype, self.address, self._version = shape, dtype, address, 0

    def add_(self, number):
        self._version += 1
        return self

    def dim(self):
        return len(self.shape)

    def numel(self):
        total = 1
        for size in self.shape:
            total *= size
        return total

    def is_contiguous(self):
        return True

    def stride(self):
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step *= size
        return tuple(strides)

    def data_ptr(self):
        return self.address


class Memory:
    """The stand-in's values, by address."""

    def __init__(self):
        self.values = {}

    def state_values(self, address, values):
        self.values[address] = list(values)
        return True

    def forget_values(self, address, size):
        del self.values[address]

    def known_values(self, address, values):
        if address not in self.values:
            return False
        values[:] = type(values)(values.typecode, self.values[address][: len(values)])
        return True


class Type:
    """A dtype."""

    def __init__(self, is_floating_point):
        self.is_floating_point = is_floating_point


INT64, INT32, FLOAT, DOUBLE = Type(False), Type(False), Type(True), Type(True)


class Layer:
    """A mixture of four experts, two of which are chosen for each token."""

    num_experts = 4
    top_k = 2

    def counts(self, sums, result, source):
        sums._tell(result, source, None, sums._assignments)


class Values(unittest.TestCase):
    def setUp(self):
        self.memory = Memory()
        self.said = []
        torch = types.SimpleNamespace(
            int64=INT64, int32=INT32, float32=FLOAT, float64=DOUBLE, Tensor=Tensor, nn=types.SimpleNamespace(Parameter=Tensor)
        )
        self.session = types.SimpleNamespace(
            torch=torch,
            device=self.memory,
            settings=types.SimpleNamespace(routing="skewed:0.2"),
            guess=lambda what, where="": self.said.append(what),
            report_failure=lambda where, error: self.fail(f"{where}: {error!r}"),
        )
        self.known = known.Known(self.session)
        self.sums = known.KnownSums(self.session, self.known)

    def test_the_rows_of_a_nonzero_that_found_everything_are_its_places(self):
        rows = Tensor((4, 1), INT64)
        self.known.tell_places(Tensor((4,), FLOAT), rows, 4)
        self.assertEqual(self.memory.values, {4096: [0, 1, 2, 3]})
        pairs = Tensor((4, 2), INT64, 8192)
        self.known.tell_places(Tensor((2, 2), FLOAT), pairs, 4)
        self.assertEqual(self.memory.values[8192], [0, 0, 0, 1, 1, 0, 1, 1])

    def test_the_rows_of_a_nonzero_that_found_a_part_are_not_known(self):
        self.known.tell_places(Tensor((4,), FLOAT), Tensor((3, 1), INT64), 3)
        self.assertEqual(self.memory.values, {})

    def test_values_go_with_their_tensor(self):
        tensor = Tensor((2,), INT64)
        self.assertTrue(self.known.tell(tensor, [5, 6]))
        self.assertEqual(self.known.of(tensor), [5, 6])
        del tensor
        gc.collect()
        self.assertEqual(self.memory.values, {})

    def test_values_are_forgotten_when_their_tensor_is_written_to(self):
        written, kept = Tensor((2,), INT64), Tensor((2,), INT64, 8192)
        self.known.tell(written, [5, 6])
        self.known.tell(kept, [7, 8])
        written.add_(1)
        self.assertIsNone(self.known.of(written))
        self.assertEqual(self.memory.values, {8192: [7, 8]})
        self.known.tell(written, [6, 7])  # The version from now on counts.
        self.assertEqual(self.known.of(written), [6, 7])
        del written
        gc.collect()
        self.assertEqual(self.memory.values, {8192: [7, 8]})

    def test_a_method_that_reads_looks_for_writes_first(self):
        memory = self.memory

        class Readable(Tensor):
            def _read(self):
                return list(memory.values.get(self.address, [0, 0]))

        names = dict.fromkeys((*known._READERS, *known._MOVERS))
        for name in names:
            setattr(Readable, name, Readable._read)
        self.session.torch.Tensor = Readable
        for address, name in enumerate(names, 1):
            counts = Readable((2,), INT64, 64 * address)
            self.known.tell(counts, [5, 6])
            self.assertEqual(getattr(counts, name)(), [5, 6], name)
            counts.add_(1)
            self.assertEqual(getattr(counts, name)(), [0, 0], name)

    def test_methods_that_read_are_wrapped_only_once_something_is_known(self):
        def read(tensor):
            return tensor.address

        readable = type("Readable", (Tensor,), {name: read for name in (*known._READERS, *known._MOVERS)})
        self.session.torch.Tensor = readable
        self.known.of(readable((2,), INT64))
        self.assertIs(readable.to, read)  # Compilers trace it.
        self.known.tell(readable((2,), INT64), [5, 6])
        wrapped = readable.to
        self.assertIsNot(wrapped, read)
        self.known.tell(readable((2,), INT64, 8192), [5, 6])
        self.assertIs(readable.to, wrapped)

    def test_a_sum_over_a_one_hot_routing_counts_the_tokens_of_each_expert(self):
        for number, (shape, tokens) in enumerate((((100, 4), 200), ((4, 2, 100), 200), ((50, 2, 4), 100))):
            sums = Tensor((4,), INT64, 64 * (number + 1))
            Layer().counts(self.sums, sums, Tensor(shape, INT64))
            favoured = tokens // 5
            even = (tokens - favoured) // 4
            self.assertEqual(self.memory.values[sums.address], [even + favoured, even, even, even])

    def test_a_rank_counts_the_tokens_of_its_own_experts(self):
        config = types.SimpleNamespace(num_moe_experts=8, moe_router_topk=4)
        for at, (indices, counts) in enumerate((([0, 1], [100, 43]), ([4, 5], [43, 43]), ([7], [42])), 1):
            layer = types.SimpleNamespace(num_local_experts=len(indices), local_expert_indices=indices, experts=(), config=config)
            sums = Tensor((len(indices),), INT64, 64 * at)
            Layer.counts(layer, self.sums, sums, Tensor((100, len(indices)), INT64))
            self.assertEqual(self.memory.values[sums.address], counts)  # A fifth of 400 choices, but 100 tokens at most.
        self.assertEqual((self.known.routed((2, 100)), self.known.routed((100, 1)), self.known.routed((100, 3))), (86, 42, None))

    def test_experts_without_tokens_are_a_routing_too(self):
        self.session.settings.routing = "skewed:1"
        config = types.SimpleNamespace(num_moe_experts=8, moe_router_topk=1)
        layer = types.SimpleNamespace(num_local_experts=1, local_expert_indices=[7], experts=(), config=config)
        Layer.counts(layer, self.sums, Tensor((1,), INT64, 64), Tensor((100, 1), INT64))
        self.assertEqual(self.known.routed((100, 1)), 0)

    def test_only_a_map_of_tokens_to_experts_is_one(self):
        class Chosen:
            num_experts, top_k = 4, 2

            def count(self, sums, result, source):
                sums._tell(result, source, None, lambda chosen, experts, frame: chosen.numel())  # As histc does.

        sums = Tensor((4,), INT64, 64)
        Chosen().count(self.sums, sums, Tensor((100, 2), INT64))
        self.assertEqual(sum(self.memory.values[64]), 200)
        self.assertIsNone(self.known.routed((100, 2)))

    def test_counts_of_many_ranks_are_known_in_parts(self):
        class Part(Tensor):
            def stride(self):
                return (256, 1)

            def is_contiguous(self):
                return False

        gathered = Tensor((64, 256), INT64)
        self.known.tell(gathered, list(range(64 * 256)))
        self.assertEqual(self.known.of(Part((64, 2), INT64))[:4], [0, 1, 256, 257])

    def test_a_sum_that_is_no_routing_is_not_known(self):
        layer = Layer()
        for result, source in (
            (Tensor((3,), INT64), Tensor((100, 3), INT64)),  # There are fewer counts than experts.
            (Tensor((4,), FLOAT), Tensor((100, 4), FLOAT)),  # These are probabilities.
            (Tensor((4,), INT64), Tensor((2, 4, 3), INT64)),  # The experts are in the middle.
        ):
            layer.counts(self.sums, result, source)
        self.assertEqual((self.memory.values, self.said), ({}, []))

    def test_sums_over_ranks_of_what_is_known_are_known(self):
        counts = Tensor((2, 3), INT64)
        self.assertIsNone(self.sums._added((counts,), {"dim": 1}, known.sums_over))  # Nothing was told yet.
        self.known.tell(counts, [1, 2, 3, 4, 5, 6])
        for args, kwargs, sums in (((), {"dim": 1}, [6, 15]), ((0,), {}, [5, 7, 9]), (((0, 1),), {}, [21]), ((), {}, [21])):
            self.assertEqual(self.sums._added((counts, *args), kwargs, known.sums_over), sums)
        self.assertIsNone(self.sums._added((counts,), {"dim": "expert"}, known.sums_over))

    def test_a_view_has_the_numbers_of_its_elements(self):
        class View(Tensor):
            """The last two columns of a matrix of three, transposed."""

            def stride(self):
                return (1, 3)

        counts = Tensor((2, 3), INT64)
        self.known.tell(counts, [1, 2, 3, 4, 5, 6])
        self.memory.values[4104] = [2, 3, 4, 5, 6]
        self.assertEqual(self.known.of(View((2, 2), INT64, 4104)), [2, 5, 3, 6])

    def test_what_moves_known_numbers_elsewhere_is_known(self):
        def move(tensor, kind=None):
            return type(tensor)(tensor.shape, kind or tensor.dtype, tensor.address + 4096)

        movable = type("Movable", (Tensor,), {name: move for name in known._MOVERS})
        self.session.torch.Tensor = movable
        counts = movable((2,), INT64)
        unknown = movable((2,), INT64, 65536)
        self.known.tell(counts, [5, 6])
        moved = counts.to(INT32)
        self.assertEqual(self.known.of(moved), [5, 6])
        self.assertIsNone(self.known.of(unknown.contiguous()))


if __name__ == "__main__":
    unittest.main()
