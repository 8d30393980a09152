"""The loop: `python train.py CASE.json [--report FOLDER] [--snapshot FILE] [--timed-steps N]`.

Without --report, the script only trains; the dry run observes it from outside. With --report, it measures itself and
writes `RANK-PROCESS.json` into FOLDER.
"""
import argparse
import json
import statistics
import time

from headroom_torch.case import Case, set_allocator


def make_batch(model, case):
    """Random tokens of the plan's shape, with labels; for speech, spectrograms and the tokens of transcripts."""
    import torch

    config = getattr(model, "module", model).config
    shape = (case["micro_batch"], case["sequence"])
    kind = case.model["class"]
    classes = config.num_labels if "Token" in kind else getattr(config, "vocab_size", 100)
    tokens = torch.randint(0, min(100, classes), shape, device="cuda")
    if "SpeechSeq2Seq" in kind:  # The encoder takes spectrograms of one length.
        features = (shape[0], config.num_mel_bins, 2 * config.max_source_positions)
        dtype = next(model.parameters()).dtype
        return dict(labels=tokens, input_features=torch.zeros(features, dtype=dtype, device="cuda"))
    if "SequenceClassification" in kind:
        labels = torch.zeros(shape[0], dtype=torch.float32 if config.num_labels == 1 else torch.int64, device="cuda")
        return dict(input_ids=tokens, labels=labels)
    return dict(input_ids=tokens, labels=tokens.clone() if case["keep_batch"] else tokens)


class Trainer:
    """Model, optimizer and what belongs to them; `step` trains on one batch of the plan."""

    def __init__(self, case, phases):
        self.case, self.phases = case, phases
        self.engine = self.optimizer = self.scaler = None
        self.batch = None  # A loop like Trainer's keeps it until the next one is there.
        with phases("load"):
            self._build()

    def _build(self):
        import torch

        from headroom_torch.models import build_model, fill_weights
        from headroom_torch.optimizers import make_optimizer, trained_groups
        from headroom_torch.parallel import distribute, join_deepspeed, start_engine

        case = self.case
        if case.runtime == "deepspeed":
            join_deepspeed()
            self.model = build_model(case)
        else:
            self.model = distribute(build_model(case), case)
        fill_weights(self.model)
        groups = trained_groups(self.model, case)
        self.optimizer = make_optimizer(case, groups)
        if case.runtime == "deepspeed":
            self.model = self.engine = start_engine(self.model, self.optimizer, groups, case)
        self.trained = [p for p in self.model.parameters() if p.requires_grad]
        if case.autocast_type == "float16":
            self.scaler = self._scaler(torch)

    def _scaler(self, torch):
        if self.case.fsdp_version == 1:
            from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

            return ShardedGradScaler()
        return torch.amp.GradScaler("cuda")

    def run(self):
        """The steps of the plan, and its evaluation."""
        for step in range(1, self.case["steps"] + 1):
            self.step(step)
        self.batch = None
        if self.case["evaluation"]:
            self.evaluate()

    def step(self, step):
        """One step of the optimizer."""
        from headroom_torch.models import autocast_of

        case, phases = self.case, self.phases
        pieces = case["accumulation"]
        keeps_batch = case["keep_batch"] or self.engine is not None
        for micro in range(1, pieces + 1):
            with phases("forward", step, micro):
                self.batch = make_batch(self.model, case)
                with autocast_of(case):
                    output = self.model(**self.batch)
                loss = output.loss
                if not case["keep_logits"]:
                    del output
                if pieces > 1 and not keeps_batch:
                    loss = loss / pieces
            with phases("backward", step, micro):
                if self.engine is not None:
                    self.engine.backward(loss)
                else:
                    (self.scaler.scale(loss) if self.scaler else loss).backward()
                del loss
                if case["keep_logits"]:
                    del output
                if not keeps_batch:
                    self.batch = None
            if self.engine is not None and micro < pieces:
                self.engine.step()  # Nothing but a count.
        if self.engine is not None:
            with phases("optimizer", step):
                self.engine.step()
        elif self.optimizer is not None:
            with phases("optimizer", step):
                self.update()
            with phases("zero_grad", step):
                self.optimizer.zero_grad(set_to_none=True)

    def update(self):
        """Clips and steps."""
        import torch

        if self.case["clip_norm"] is not None:
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            if self.case.fsdp_version == 1:
                self.model.clip_grad_norm_(self.case["clip_norm"])
            else:
                torch.nn.utils.clip_grad_norm_(self.trained, self.case["clip_norm"])
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()

    def evaluate(self):
        """One forward pass in evaluation mode."""
        import torch

        from headroom_torch.models import autocast_of

        self.model.eval()
        with self.phases("evaluation", self.case["steps"] + 1), torch.no_grad():
            batch = make_batch(self.model, self.case)
            with autocast_of(self.case):
                output = self.model(**batch)
            del output, batch
        self.model.train()

    def seconds_of(self, count):
        """Median seconds of `count` steps without a stop between their phases, after two that warm up."""
        import torch

        from headroom_torch.phases import Unobserved

        self.phases, taken = Unobserved(), []
        for number in range(count + 2 if count else 0):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            self.step(number)
            torch.cuda.synchronize()
            taken.append(time.perf_counter() - begun)
        return statistics.median(taken[2:]) if count else None


def train(case, report=None, snapshot=None, timed_steps=0):
    """Trains; with `report`, a folder, also measures."""
    set_allocator(case)
    import torch

    from headroom_torch.parallel import set_device
    from headroom_torch.phases import Phases, Unobserved, write_report

    set_device()
    torch.zeros(1, device="cuda")  # PyTorch begins with a small tensor that is gone at once.
    phases = Phases() if report else Unobserved()
    if snapshot:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    failure, seconds = None, None
    try:
        trainer = Trainer(case, phases)
        trainer.run()
        if report:
            seconds = trainer.seconds_of(timed_steps)
    except Exception as error:
        failure = error
    if snapshot:
        torch.cuda.memory._dump_snapshot(snapshot)
    if report:
        write_report(report, phases.report("exception" if failure else "steps", seconds, failure))
    if torch.distributed.is_initialized() and failure is None:
        torch.distributed.destroy_process_group()
    if failure is not None:
        raise failure


def read_arguments(words, has_case):
    """The options; the path of a case stands before them unless the script has one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    if not has_case:
        parser.add_argument("case", help="a training case")
    parser.add_argument("--report", help="folder for the measurements of this process")
    parser.add_argument("--snapshot", help="file for PyTorch's memory snapshot")
    parser.add_argument("--timed-steps", type=int, default=0, help="steps whose median time is measured (default 0)")
    return parser.parse_args(words)


def main(case=None, words=None):
    """Trains `case`, or the one in the file that the command line names."""
    arguments = read_arguments(words, case is not None)
    if case is None:
        with open(arguments.case, encoding="utf-8") as file:
            case = Case(json.load(file))
    train(case, arguments.report, arguments.snapshot, arguments.timed_steps)
