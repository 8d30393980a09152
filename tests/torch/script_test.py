"""The script in one file, as `headroom validate PLAN.json --script FILE` puts it together, without PyTorch."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validators" / "torch" / "python"))

from headroom_torch import training
from headroom_torch.case import Case


class ScriptTest(unittest.TestCase):
    def setUp(self):
        self.trained = []
        usual = training.train
        training.train = lambda *arguments: self.trained.append(arguments)
        self.addCleanup(setattr, training, "train", usual)

    def test_a_case_of_the_script_needs_no_file(self):
        case = Case({"model": {}, "plan": {}})
        training.main(case, ["--report", "folder", "--timed-steps", "3"])
        self.assertEqual(self.trained, [(case, "folder", None, 3)])

    def test_a_file_names_the_case(self):
        training.main(words=[str(ROOT / "tests" / "golden" / "torch" / "ddp.json"), "--snapshot", "memory.pickle"])
        (case, report, snapshot, timed), = self.trained
        self.assertEqual((case["gpus"], report, snapshot, timed), (8, None, "memory.pickle", 0))


if __name__ == "__main__":
    unittest.main()
