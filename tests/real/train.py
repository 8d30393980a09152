"""Trains the model that a row of tests/measured describes under "case": `python train.py CASE.json`. The script is that
of validators/torch, which knows nothing of the dry run.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "validators" / "torch" / "python"))

from headroom_torch.case import Case
from headroom_torch.training import train
from row_case import training_case


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        case = json.load(file)
    train(Case(training_case(case)))


main()
