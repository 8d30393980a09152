"""A world of N ranks in one process: variables, store, launchers."""

import types
import unittest

import support
from headroom_dryrun import launchers, world
from headroom_dryrun.settings import Settings


class Base:
    """In place of torch.distributed.Store."""


class Variables(unittest.TestCase):
    def test_the_chosen_rank_has_its_place_on_its_node(self):
        variables = world.rank_variables(Settings("x", world=64, rank=13, per_node=8))
        shown = [variables[n] for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")]
        self.assertEqual(shown, ["13", "64", "5", "8", "1"])

    def test_without_a_world_nothing_is_set(self):
        self.assertEqual(world.rank_variables(Settings("x")), {})

    def test_settings_are_read_from_the_environment(self):
        env = {"HEADROOM_DRYRUN_DIR": "d", "HEADROOM_DRYRUN_STEPS": "3", "HEADROOM_DRYRUN_WORLD": "16", "HEADROOM_DRYRUN_RANK": "x"}
        settings = Settings.from_environment(env)
        self.assertEqual((settings.folder, settings.steps, settings.world, settings.rank, settings.per_node), ("d", 3, 16, 0, 8))

    def test_a_plain_program_sees_the_variables(self):
        process, _ = support.run(
            "import os; print(os.environ['RANK'], os.environ['LOCAL_RANK'], os.environ['MASTER_PORT'])",
            HEADROOM_DRYRUN_WORLD="16",
            HEADROOM_DRYRUN_RANK="9",
            HEADROOM_DRYRUN_PER_NODE="8",
        )
        self.assertEqual(process.stdout.split(), ["9", "1", "29500"], process.stderr)


class Arguments(unittest.TestCase):
    """Arguments have PyTorch's names: torch.distributed.checkpoint passes them by name."""

    def setUp(self):
        c10d = types.SimpleNamespace(get_rank=lambda group=None: 1)
        self.answers = world._Collectives(types.SimpleNamespace(guess=lambda *_: None), c10d)

    def test_a_rank_gets_its_part_of_what_is_scattered(self):
        output = [None]
        self.answers.scatter_object_list(scatter_object_output_list=output, scatter_object_input_list=["a", "b"], src=0, group=None)
        self.assertEqual(output, ["b"])

    def test_every_rank_sends_what_this_one_sends(self):
        gathered = [None, None]
        self.answers.gather_object(obj="x", object_gather_list=gathered, dst=0, group=None)
        self.assertEqual(gathered, ["x", "x"])


class GroupsOfOne(unittest.TestCase):
    """Without --gpus, collectives of a group with one rank are answered, and others are made."""

    def setUp(self):
        self.made = []
        self.c10d = types.SimpleNamespace(
            get_rank=lambda group=None: 0,
            get_world_size=lambda group=None: group or 1,
            all_gather_object=lambda object_list, obj, group=None: self.made.append("all_gather_object"),
            gather_object=lambda obj, object_gather_list=None, dst=None, group=None: self.made.append("gather_object"),
        )
        session = types.SimpleNamespace(guess=lambda *_: None, device=types.SimpleNamespace(is_standin=True))
        world._put_gathers_of_one(session, self.c10d)

    def test_one_rank_gathers_what_it_sent(self):
        lists = [None], [None]
        self.c10d.all_gather_object(lists[0], "x")
        self.c10d.gather_object("x", lists[1], 0, None)
        self.assertEqual((*lists, self.made), (["x"], ["x"], []))

    def test_two_ranks_ask_each_other(self):
        self.c10d.all_gather_object([None, None], "x", 2)
        self.c10d.gather_object("x", group=2)
        self.assertEqual(self.made, ["all_gather_object", "gather_object"])


class Planner:
    """As DefaultSavePlanner of torch.distributed.checkpoint: what all ranks hold is divided among them."""

    def create_global_plan(self, all_plans):
        return [f"{i} of {plan}" for i, plan in enumerate(all_plans)], "metadata"


class Checkpoints(unittest.TestCase):
    def test_this_rank_writes_all_of_its_shards(self):
        kind = type("DefaultSavePlanner", (Planner,), {"create_global_plan": Planner.create_global_plan})
        module = types.SimpleNamespace(DefaultSavePlanner=kind, _validate_global_plan=lambda plan, metadata: False)
        session = types.SimpleNamespace(settings=Settings("x", world=2))
        world.hooks(session)["torch.distributed.checkpoint.default_planner"][0](module)
        self.assertEqual(kind().create_global_plan(["a", "a"]), (["0 of a", "0 of a"], "metadata"))
        self.assertTrue(module._validate_global_plan([], None))


class Store(unittest.TestCase):
    def setUp(self):
        self.store = world.store_class(Base)("host", 1234, 8, is_master=False)

    def test_what_another_rank_would_write_is_a_unique_id(self):
        self.assertEqual(self.store.get("0"), bytes(128))
        self.assertTrue(self.store.check(["nobody writes this"]))
        self.assertFalse(self.store.check(["default_pg//cuda//exception_dump"]))
        self.store.set("remote_error", "by this rank")
        self.assertTrue(self.store.check(["remote_error"]))
        self.assertIsNone(self.store.wait(["nobody writes this"], 1))

    def test_what_this_rank_writes_comes_back(self):
        self.store.set("a", "1")
        self.assertEqual((self.store.get("a"), self.store.add("n", 2), self.store.add("n", 3)), (b"1", 2, 5))
        self.assertEqual(self.store.compare_set("a", "1", "2"), b"2")
        self.store.append("a", "3")
        self.assertEqual((self.store.get("a"), self.store.delete_key("a"), self.store.num_keys()), (b"23", True, 1))


class Objects(unittest.TestCase):
    def setUp(self):
        self.said = []
        session = types.SimpleNamespace(guess=lambda what, where="": self.said.append(what))
        self.answers = world._Collectives(session, types.SimpleNamespace(get_rank=lambda group=None: 3))

    def test_every_rank_holds_what_this_one_holds(self):
        gathered = [None] * 8
        self.answers.all_gather_object(gathered, {"a": 1})
        self.assertEqual(gathered, [{"a": 1}] * 8)

    def test_a_list_that_nobody_sends_is_said(self):
        self.answers.broadcast_object_list([None], src=0)
        self.assertEqual(len(self.said), 1)
        self.answers.broadcast_object_list(["known"], src=0)
        self.assertEqual(len(self.said), 1)


class Launchers(unittest.TestCase):
    def options(self, **more):
        given = dict(user_script="train.py", user_args=["--x", "1"], no_python=False, module=False, no_local_rank=False)
        return types.SimpleNamespace(**{**given, **more})

    def test_deepspeed_starts_the_script_of_one_rank(self):
        self.assertEqual(
            launchers.deepspeed_command(self.options(), "5", "/py"), ["/py", "-u", "train.py", "--local_rank=5", "--x", "1"]
        )
        module = self.options(module=True, no_local_rank=True, user_script="pkg.train")
        self.assertEqual(launchers.deepspeed_command(module, "5", "/py"), ["/py", "-u", "-m", "pkg.train", "--x", "1"])
        self.assertEqual(launchers.deepspeed_command(self.options(no_python=True), "0", "/py")[0], "train.py")
