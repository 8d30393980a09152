"""Tests how recordings of several configurations become one of their family, without PyTorch."""
import copy
import json
import pathlib
import sys
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[3] / "runtimes/torch/record")]

from headroom_record import fallbacks
from headroom_record.family import expand, family, join, keys, record, rules, stacks, symbols
from headroom_record.merge import Different

DIMENSIONS = ["hidden_size", "intermediate_size", "num_heads", "num_layers", "vocab_size", "every"]


def config(hidden, intermediate, heads, layers, vocab, every=2):
    kinds = ["linear" if (index + 1) % every else "full" for index in range(layers)]
    return {"model_type": "toy", "hidden_size": hidden, "intermediate_size": intermediate, "num_heads": heads,
            "num_layers": layers, "vocab_size": vocab, "every": every, "layer_types": kinds}


CONFIGS = [config(256, 704, 8, 4, 1000), config(384, 1024, 4, 6, 3000), config(512, 960, 16, 5, 2000, 3),
           config(320, 640, 5, 8, 5000, 4), config(768, 2112, 12, 7, 7000, 3)]


def operator(name, inputs, number, shape, **extra):
    return ["op", name, inputs, [[number, "bf16", shape]]] + ([extra] if extra else [])


def recording(of, cached=True, shared=False, held=False, masked=False, hoarded=False):
    """What a recorder would write: layers of two kinds, each keeping a tensor that the model returns at the end.

    `held`: the caller has a name for the input of the layers until the last one has run. `masked`: the kinds of layers
    have the same code, and other masks. `hoarded`: the caller keeps what every layer hands on until the last one has run.
    """
    hidden, heads = of["hidden_size"], of["num_heads"]
    modules = [["", "Toy"], ["embed", "Embedding"], ["layers", "ModuleList"]]
    parameters = [["embed.weight", [of["vocab_size"], hidden]]]
    load = [["op", "empty", [], [["p:embed.weight", "bf16", [of["vocab_size"], hidden]]]]]
    forward = [operator("embedding", ["p:embed.weight", 0], 1, ["B", "S", hidden], gradient=0)]
    forward += [operator("arange", [], 2, ["S"])]
    masks = {"linear": 2, "full": 2}
    numbers, kept, handed, layers, value, index = {}, [], [], [], 1, None
    following = 3
    if masked:
        forward += [operator("ones", [], 3, ["S", "S"])]
        masks, following = {"linear": 2, "full": 3}, 4
    for at, kind in enumerate(of["layer_types"]):
        name = f"layers.{at}.up.weight"
        modules += [[f"layers.{at}", "Layer"], [f"layers.{at}.up", "Linear"]]
        width = of["intermediate_size"] if kind == "full" or masked else 3 * hidden // heads
        parameters.append([name, [width, hidden]])
        load.append(["op", "empty", [], [[f"p:{name}", "bf16", [width, hidden]]]])
        numbers.setdefault("any" if masked else kind, len(numbers))
        layers.append({"module": len(modules) - 2, "body": numbers["any" if masked else kind]})
        arguments = [value, masks[kind]] + ([index] if shared and kind == "linear" else [])
        outputs = [following, following + 1] + ([following + 2] if shared and kind == "full" else [])
        forward.append(["layer", at, arguments, outputs])
        index = outputs[2] if len(outputs) == 3 else index
        if at and not hoarded:
            last = held and at == len(of["layer_types"]) - 1
            forward.append(["drop"] + ([1] if last else []) + [value])
        handed = handed + [following]
        value, kept = following, [following + 1] + kept
        following += len(outputs)
    forward.append(["drop"] + ([] if held else [1]) + [2] + ([3] if masked else []) + (handed[:-1] if hoarded else []))
    forward.append(operator("mean", [value], following, []))
    forward.append(["result", following, None] + (kept if cached else []))
    bodies = [{"arguments": 2, "code": [operator("mul", [0], 2, ["B", "S", 2 * hidden + heads], saves=["in 0"]),
                                        ["op", "cat", [2], [[3, "bf16", [1], f"bytes {64 * hidden}*B"]]]],
               "outputs": [2, 3]} for _ in numbers]
    for kind, number in numbers.items():
        if kind == "full":
            bodies[number]["code"].insert(1, ["enter", "up"])
    return {"headroom_recording": 1, "model": "toy", "task": "own", "versions": {}, "config": of,
            "sizes": {"checked": [[2, 96]], "sequence_multiple": 1}, "modules": modules, "parameters": parameters,
            "buffers": [], "gradients": [{"name": "N", "edges": [0], "code": [operator("zeros", ["g0"], 0, [hidden])],
                                          "results": [0]}],
            "variants": [{"parameters": "bf16", "autocast": None, "attention": "sdpa",
                          "inputs": [["ids", "int64", ["B", "S"]]], "load": load, "forward": forward,
                          "layers": layers, "bodies": bodies}]}


def said(one):
    one = stacks.with_templates(one)
    for variant in one["variants"]:  # What is let go at one place may be written as one or several instructions.
        variant["forward"] = expand.with_joined_drops(variant["forward"])
    return {key: one[key] for key in ("modules", "parameters", "buffers", "variants")}


class Families(unittest.TestCase):
    def check_all(self, configs=CONFIGS, **how):
        for held, config_of_it in enumerate(configs):
            of = [recording(one, **how) for at, one in enumerate(configs) if at != held]
            found = json.loads(json.dumps(family.family_of(of, DIMENSIONS)))
            self.assertEqual(said(expand.expanded(found, config_of_it)), said(recording(config_of_it, **how)))

    def test_a_configuration_that_was_left_out_is_what_its_own_recording_says(self):
        self.check_all()
        self.check_all(cached=False)

    def test_the_input_of_all_layers_is_let_go_behind_the_last_one(self):
        self.check_all(cached=False, held=True)

    def test_what_all_layers_but_the_last_hand_on_is_let_go_behind_the_last(self):
        self.check_all(cached=False, hoarded=True)

    def test_layers_of_one_code_with_other_masks_are_of_other_kinds(self):
        self.check_all(cached=False, masked=True)
        found = family.family_of([recording(one, cached=False, masked=True) for one in CONFIGS], DIMENSIONS)
        self.assertEqual(found["stacks"][0]["kinds"], [["linear"], ["full"]])

    def test_values_pass_through_layers_that_do_not_use_them(self):
        self.check_all([dict(one, layer_types=one["layer_types"][one["every"] - 1:] + ["linear"] * (one["every"] - 1))
                        for one in CONFIGS], shared=True)


    def test_kinds_follow_the_configuration(self):
        found = family.family_of([recording(one) for one in CONFIGS], DIMENSIONS)
        self.assertEqual(found["stacks"], [{"path": "layers", "by": [["list", "layer_types"]],
                                            "kinds": [["linear"], ["full"]], "count": "num_layers"}])
        other = dict(CONFIGS[0], layer_types=["full", "other", "full", "full"])
        with self.assertRaisesRegex(Different, "layer 1 of layers is .*other"):
            expand.expanded(found, other)

    def test_other_code_in_one_configuration_is_named(self):
        of = [recording(one) for one in CONFIGS]
        of[2]["variants"][0]["forward"][0][1] = "take"
        with self.assertRaisesRegex(Different, "operators embedding embedding take"):
            family.family_of(of, DIMENSIONS)

    def test_a_size_that_is_no_expression_is_named(self):
        of = [recording(one) for one in CONFIGS]
        for at, one in enumerate(of):
            one["parameters"][0][1][0] = (17, 171, 30, 1999, 4)[at]
        with self.assertRaisesRegex(Different, "no expression of the configuration"):
            family.family_of(of, DIMENSIONS)


class Symbols(unittest.TestCase):
    def setUp(self):
        self.values = {"h": [256, 384, 512, 320, 768], "a": [8, 4, 16, 5, 12], "k": [2, 4, 8, 1, 3],
                       "d": [32, 48, 40, 56, 72], "f": [704, 1024, 960, 640, 2112]}
        self.symbols = symbols.Symbols(self.values)

    def find(self, function):
        rows = [dict(zip(self.values, row)) for row in zip(*self.values.values())]
        return self.symbols.expression([function(**row) for row in rows])

    def test_sums_of_products(self):
        self.assertEqual(self.find(lambda **_: 7), 7)
        self.assertEqual(self.find(lambda h, **_: 3 * h // 2), "3*h/2")
        self.assertEqual(self.find(lambda a, d, **_: a * d), "a*d")
        self.assertEqual(self.find(lambda a, k, d, **_: (a + 2 * k) * d), "a*d + 2*k*d")
        self.assertEqual(self.find(lambda f, **_: f + 64), "f + 64")
        self.assertEqual(self.find(lambda f, h, k, **_: 2 * f + h + k), "h + k + 2*f")

    def test_three_products_of_which_one_is_of_two_dimensions(self):
        self.assertEqual(self.find(lambda h, a, d, k, f: 2 * f + 3 * a * d + k), "k + 2*f + 3*a*d")

    def test_what_is_none_is_refused(self):
        with self.assertRaises(Different):
            self.find(lambda h, **_: h * h % 1009)

    def test_expressions_keep_the_powers_of_batch_and_sequence(self):
        joined = join.Join(self.symbols)
        self.assertEqual(joined.size([f"{2 * h}*B*S + {f}" for h, f in zip(self.values["h"], self.values["f"])]),
                         "2*h*B*S + f")
        self.assertEqual(joined.size(["B*S"] * 5), "B*S")


class Rules(unittest.TestCase):
    def test_defaults_of_lists(self):
        made = [dict(one, every=every, layer_types=["a" if (index + 1) % every else "b" for index in range(layers)],
                     num_layers=layers)
                for one, every, layers in zip(CONFIGS, (2, 3, 4), (6, 7, 9))]
        found = rules.default_of_list(made, "layer_types", "num_layers")
        self.assertEqual(found, {"by": [["multiple", "every", 1]], "values": [[[False], "a"], [[True], "b"]],
                                 "count": "num_layers"})

    def test_lists_that_follow_from_numbers_of_layers(self):
        def made(fields):
            layers = fields.get("num_layers", 4)
            chosen = fields.get("attends", range(layers))
            return dict(num_layers=layers, layer_types=["a" if index in chosen else "c" for index in range(layers)])

        usual = {"num_layers": 4, "layer_types": {"by": [], "values": [[[], "a"]], "count": "num_layers"}}
        with mock.patch.object(keys, "made", made):
            found = keys.with_indexes({"num_layers": 4, "attends": [1, 3]}, usual)
            same = keys.with_indexes({"num_layers": 4, "sizes": [1, 3]}, usual)
        self.assertEqual(found["layer_types"]["by"], [["in", "attends"]])
        self.assertCountEqual(found["layer_types"]["values"], [[[True], "a"], [[False], "c"]])
        self.assertEqual(found["layer_types"]["otherwise"], usual["layer_types"])
        self.assertEqual(same, usual)

    def test_a_period_that_no_layer_ends_is_no_rule(self):
        made = [dict(num_layers=4, top=top) for top in (5, 6)]
        self.assertEqual(rules.find(made, [["a", "b", "b", "b"]] * 2), [["first"]])

    def test_no_rule(self):
        made = copy.deepcopy(CONFIGS[:1])
        with self.assertRaises(Different):
            rules.find(made, [[0, 1, 1, 2]], most=0)


class Written(unittest.TestCase):
    """What a config.json says otherwise than the configuration that transformers makes of it."""

    class Config:
        """A head_dim that is set whatever is given, a list that a pattern stands for, and one key that makes another."""

        def __init__(self, pattern="ME", wide=False, size=8, head_dim=None):
            self.made = {"size": size, "head_dim": 64, "wide": wide, "kinds": [{"M": "mamba", "E": "moe"}[one]
                                                                              for one in pattern]}
            if wide:
                self.made["width"] = 2 * size

        def to_dict(self):
            return self.made

    def written(self, fields):
        auto = types.SimpleNamespace(for_model=lambda kind, **given: self.Config(**given))
        with mock.patch.dict(sys.modules, {"transformers": types.SimpleNamespace(AutoConfig=auto)}):
            made = self.Config(**{key: value for key, value in fields.items() if key != "model_type"}).to_dict()
            return keys.written_of("m", fields, made)

    def test_what_is_taken_as_it_is_needs_nothing(self):
        self.assertEqual(self.written({"model_type": "m", "size": 16}), {})

    def test_a_key_that_is_set_whatever_the_file_says(self):
        self.assertEqual(self.written({"model_type": "m", "head_dim": 192}),
                         {"head_dim": {"value": 192, "makes": ["head_dim"]}})

    def test_keys_that_stand_for_others(self):
        self.assertEqual(self.written({"model_type": "m", "pattern": "MM"}),
                         {"pattern": {"value": "MM", "makes": ["kinds"], "alone": True}})
        self.assertEqual(self.written({"model_type": "m", "wide": True})["wide"]["makes"], ["width"])


class Checks(unittest.TestCase):
    def test_padded_sizes_are_equal_where_nothing_is_padded(self):
        padded, plain = {"code": ["128*B*ceil(S/64) + 3"]}, {"code": ["2*B*S + 3"]}
        self.assertTrue(record._first_difference(padded, plain, ""))
        for multiple, differ in ((64, False), (128, False), (32, True)):
            both = [dict(one, sequence_multiple=multiple) for one in (padded, plain)]
            self.assertEqual(bool(record._first_difference(*both, "")), differ, multiple)
        odd = {"sequence_multiple": 64, "code": ["96*B*ceil(S/64)"]}
        self.assertTrue(record._first_difference(odd, {"sequence_multiple": 64, "code": ["B*S"]}, ""))

    def test_what_a_made_list_makes_may_vary(self):
        found = {"varied": ["layers"], "defaults": {}, "written": {
            "layers": {"value": 4, "makes": ["sparse"], "alone": True}}}
        self.assertEqual(record._still_written(found, {"sparse"}, {"sparse": {"made": True}}), {})
        self.assertEqual(list(record._still_written(found, {"sparse"}, {"sparse": [1]})), ["layers"])


class Fallbacks(unittest.TestCase):
    def test_missing_packages_are_kept_and_other_warnings_are_given(self):
        given = []
        logger = types.SimpleNamespace(warning_once=lambda text, *_: given.append(text))
        modules = {"transformers": types.ModuleType("transformers"),
                   "transformers.integrations": types.ModuleType("transformers.integrations"),
                   "transformers.integrations.hub_kernels": types.SimpleNamespace(logger=logger)}
        with mock.patch.dict(sys.modules, modules):
            for _ in range(2):  # Of two recordings, each has its own.
                fallbacks.watch()
                self.assertEqual(fallbacks.missing(), {})
                logger.warning_once("`f` is falling back to its reference PyTorch implementation because `fla` is not "
                                    "installed.")
                logger.warning_once("another warning")
                self.assertEqual(fallbacks.missing(), {"fla": None})
        self.assertEqual(given, ["another warning"] * 2)


if __name__ == "__main__":
    unittest.main()
