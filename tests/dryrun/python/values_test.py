"""Made-up values: the routing of tokens, and compilers that are started without the stand-in."""

import ctypes
import os
import subprocess
import sys
import types
import unittest

import support  # noqa: F401
from headroom_dryrun import processes, values


class Routing(unittest.TestCase):
    def test_the_counts_of_all_experts_sum_to_the_tokens(self):
        for routing in ("uniform", "skewed:0.3", "skewed:1", "skewed:7", "skewed"):
            for experts, tokens in ((1, 7), (8, 4096), (128, 100), (3, 10)):
                counts = [values.tokens_of(i, experts, tokens, routing) for i in range(experts)]
                self.assertEqual(sum(counts), tokens)
                self.assertGreaterEqual(min(counts), 0)

    def test_uniform_experts_differ_by_one_token_at_most(self):
        counts = [values.tokens_of(i, 8, 1001, "uniform") for i in range(8)]
        self.assertLessEqual(max(counts) - min(counts), 1)

    def test_a_skewed_expert_takes_its_share_beyond_the_others(self):
        self.assertEqual(values.tokens_of(0, 4, 1000, "skewed:0.2"), 200 + 200)
        self.assertEqual(values.tokens_of(1, 4, 1000, "skewed:0.2"), 200)


class Searches(unittest.TestCase):
    class Layer:
        num_experts = 4
        top_k = 2

        def ask(self, counts, elements):
            condition = types.SimpleNamespace(numel=lambda: elements, dim=lambda: 1)
            return counts._count(condition, sys._getframe())[0]

    def test_what_a_layer_with_experts_finds(self):
        torch = types.SimpleNamespace(Tensor=Truth, nn=types.SimpleNamespace(Parameter=Truth), int64=0, int32=1)
        session = types.SimpleNamespace(torch=torch, settings=types.SimpleNamespace(routing="uniform"))
        counts = values.Counts(session, known=None)
        self.assertEqual(self.Layer().ask(counts, 4), 4)  # all experts
        self.assertEqual(self.Layer().ask(counts, 5), 4)  # all but the class for masked tokens (GPT-OSS)
        self.assertEqual(self.Layer().ask(counts, 100), 50)  # an expert's share of two experts for each token


class Guards(unittest.TestCase):
    def session(self):
        compiler = types.SimpleNamespace(is_compiling=lambda: False)
        torch = types.SimpleNamespace(Tensor=Truth, compiler=compiler)
        self.said = []
        return types.SimpleNamespace(torch=torch, guess=lambda what, where="": self.said.append(what),
                                     device=types.SimpleNamespace(is_standin=True))

    def test_fast_all_of_transformers_is_a_guard_too(self):
        session = self.session()
        module = types.SimpleNamespace(fast_all=lambda mask: Truth())
        values.hooks(session)["transformers.masking_utils"][0](module)
        truth = values.Guards(session)._truth(lambda tensor: False)
        self.assertTrue(truth(module.fast_all(None)))
        self.assertFalse(truth(Truth()))
        self.assertEqual(self.said, ["A guard `.all()` was taken as true"])

    def test_what_a_program_asserts_holds_and_nothing_else_does(self):
        session = self.session()
        kind = type("Unknown", (Truth,), {"__bool__": values.Guards(session)._truth(lambda tensor: False),
                                            "__lt__": lambda tensor, other: tensor})
        unknown, no = kind(), False
        assert unknown
        assert unknown, "out of bounds"
        assert unknown and not no
        assert no or unknown
        assert unknown < 3
        assert unknown < 3 and unknown
        self.assertEqual(self.said, ["What a program asserts was taken as true"] * 7)
        with self.assertRaises(AssertionError):
            assert not unknown and no
        taken = "yes" if unknown else "no"
        self.assertEqual((taken, bool(unknown), not unknown, unknown and 1), ("no", False, True, unknown))
        self.assertEqual(len(self.said), 7)

    def test_releases_without_fast_all_are_left_alone(self):
        values.hooks(self.session())["transformers.masking_utils"][0](types.SimpleNamespace())


class TorchScript(unittest.TestCase):
    def test_a_wrapped_function_is_still_the_operator(self):
        original, wrapped = (lambda: None), (lambda: None)
        table = {id(original): "aten::where"}
        builtins = types.SimpleNamespace(_find_builtin=lambda function: table.get(id(function)),
                                         _register_builtin=lambda function, name: table.update({id(function): name}))
        torch = types.SimpleNamespace(jit=types.SimpleNamespace(_builtins=builtins), where=wrapped, all=wrapped)
        values._tell_torchscript(torch, {"where": original, "all": None})
        self.assertEqual(table[id(wrapped)], "aten::where")

    def test_a_release_without_the_table_is_left_alone(self):
        values._tell_torchscript(types.SimpleNamespace(), {"where": None})


class AutogradCache(unittest.TestCase):
    def setUp(self):
        self.torch = types.SimpleNamespace(sum=lambda: None)
        self.asked = []
        self.module = types.SimpleNamespace(check_node_safe=self.asked.append)
        values._tell_autograd_cache(self.torch, self.module)

    def node(self, target, op="call_function"):
        return types.SimpleNamespace(op=op, target=target)

    def test_a_wrapped_function_is_safe(self):
        self.module.check_node_safe(self.node(self.torch.sum))
        self.assertEqual(self.asked, [])

    def test_the_cache_itself_judges_everything_else(self):
        others = [self.node(print), self.node(self.torch.sum, op="call_method")]
        for other in others:
            self.module.check_node_safe(other)
        self.assertEqual(self.asked, others)

    def test_a_release_without_the_check_is_left_alone(self):
        values._tell_autograd_cache(self.torch, types.SimpleNamespace())


class Truth:
    """A tensor of one element on the GPU."""

    is_cuda = True

    def numel(self):
        return 1


class Sequences(unittest.TestCase):
    def test_a_wrapped_class_and_its_subclasses_are_no_sequences(self):
        class Kind:
            def __getitem__(self, key):
                return key

        class Part(Kind):
            pass

        check = ctypes.pythonapi.PySequence_Check
        check.argtypes = [ctypes.py_object]
        self.assertEqual((check(Kind()), check(Part())), (1, 1))
        values._keep_from_sequences(Kind)
        self.assertEqual((check(Kind()), check(Part())), (0, 0))
        self.assertEqual((Kind()[3], Part()["x"]), (3, "x"))


class Compilers(unittest.TestCase):
    def test_names_of_compilers(self):
        for command in (["/usr/bin/gcc", "-c"], ["nvcc"], "ninja -v", [b"ptxas"], "x86_64-linux-gnu-g++-12 x.cpp"):
            self.assertTrue(processes._is_compiler(command), command)
        for command in (["python3", "train.py"], "bash run.sh", [], ""):
            self.assertFalse(processes._is_compiler(command), command)

    def test_only_compilers_lose_the_preload(self):
        code = (
            "import os, subprocess\n"
            "from headroom_dryrun import processes\n"
            "processes.keep_preload_from_compilers()\n"
            "os.environ['LD_PRELOAD'] = ''.join(['/nonexistent', '.so'])\n"
            "processes._COMPILERS += ('env',)\n"
            "print('LD_PRELOAD' in subprocess.run(['env'], capture_output=True, text=True).stdout)\n"
            "print('LD_PRELOAD' in subprocess.run(['sh', '-c', 'env'], capture_output=True, text=True).stdout)\n"
        )
        environment = dict(os.environ, PYTHONPATH=support.OBSERVER, PYTHONDONTWRITEBYTECODE="1")
        environment.pop("HEADROOM_DRYRUN_DIR", None)
        out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        self.assertEqual(out.stdout.split(), ["False", "True"], out.stderr)
