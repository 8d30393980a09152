"""A small interpreter of model recordings: requested bytes of one training step, from the recording alone.

It shares nothing with Headroom's engine, and is slow and plain on purpose: it finds faults of the recorder.
"""
import heapq
import json
import math
import re

SIZES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "int64": 8, "int32": 4, "int16": 2,
         "int8": 1, "uint8": 1, "uint64": 8, "uint32": 4, "bool": 1, "complex64": 8}


CAST = object()


class Storage:
    """A block that lives while something holds it."""

    def __init__(self, memory, size):
        self.memory, self.size, self.holders = memory, memory.take(size), 0
        self.nodes = []  # Those of the values in it, which live on as long as Python has the values.
        memory.blocks.add(self)

    def hold(self):
        self.holders += 1

    def release(self):
        self.holders -= 1
        if self.holders == 0:
            self.memory.give(self.size)
            self.memory.blocks.discard(self)


    def drop(self):
        """Python lets go of all values in this block."""
        nodes, self.nodes = self.nodes, []
        for node in nodes:
            node.release()
        self.release()


class Memory:
    def __init__(self):
        self.live = self.peak = 0
        self.blocks = set()

    def take(self, size):
        self.live += size
        self.peak = max(self.peak, self.live)
        return size

    def give(self, size):
        self.live -= size


class Value:
    def __init__(self, storage, dtype, shape, parameter=None):
        self.storage, self.dtype, self.shape, self.parameter = storage, dtype, shape, parameter
        self.node, self.position = None, 0
        self.transposed = False  # The gradient of a linear layer's weight: the engine adds to no such view.

    def needs_gradient(self):
        return self.node is not None or self.parameter is not None

    def bytes(self):
        return math.prod(self.shape) * SIZES[self.dtype]


class Node:
    def __init__(self, order, template, saved, edges, outputs):
        self.order, self.template, self.saved, self.edges, self.outputs = order, template, saved, edges, outputs
        self.holders, self.alive = 0, True
        for one in saved:
            if one is not None:
                one.storage.hold()
        for edge, _, _ in edges:
            if isinstance(edge, Node):
                edge.hold()

    def hold(self):
        self.holders += 1

    def release(self):
        self.holders -= 1
        if self.holders == 0 and self.alive:
            self.let_go()
            for edge, _, _ in self.edges:
                if isinstance(edge, Node):
                    edge.release()

    def let_go(self):
        """Releases what is saved, after the node has run or when nobody can reach it."""
        if self.alive:
            self.alive = False
            for one in self.saved:
                if one is not None:
                    one.storage.release()


class Step:
    """One forward and backward pass of a recording at B sequences of S tokens."""

    def __init__(self, recording, micro_batch, sequence, variant=None):
        self.recording = recording
        self.variant = variant or choose(recording, micro_batch, sequence)
        self.sizes = {"B": micro_batch, "S": sequence}
        self.memory = Memory()
        self.order = 0
        self.known = {}
        usual = self.variant["parameters"]
        self.parameters, self.buffers = {}, {}
        for name, shape, *extra in recording["parameters"]:
            extra = extra[0] if extra else {}
            value = Value(Storage(Memory(), 0), extra.get("dtype", usual), shape, name)
            if not extra.get("trainable", True):
                value.parameter = None
            value.storage.hold()
            for one in [name] + extra.get("tied", []):
                self.parameters[one] = value
        for name, shape, dtype in recording["buffers"]:
            self.buffers[name] = Value(Storage(Memory(), 0), dtype, shape)
            self.buffers[name].storage.hold()
        self.gradients = {}
        self.kept = []  # Casts of parameters, until autocast ends.

    def size(self, text):
        if isinstance(text, int):
            return text
        if text not in self.known:
            python = re.sub(r"ceil\((\w+)/(\d+)\)", r"-(-\1//\2)", text)
            self.known[text] = eval(python, {"__builtins__": {}}, self.sizes)
        return self.known[text]

    def shape(self, sizes):
        return [self.size(one) for one in sizes]

    def look_up(self, reference, values, prefix):
        if reference is None:
            return None
        if isinstance(reference, int) or reference[0] in "gs":
            return values[reference]
        table = self.parameters if reference[0] == "p" else self.buffers
        return table.get(prefix + reference[2:]) or table[reference[2:]]

    # Forward.

    def forward(self):
        values = {}
        for number, (_, dtype, shape) in enumerate(self.variant.get("inputs", [["input_ids", "int64", ["B", "S"]]])):
            shape = self.shape(shape)
            values[number] = Value(Storage(self.memory, math.prod(shape) * SIZES[dtype]), dtype, shape)
        self.inputs = list(values.values())
        for one in self.inputs:
            one.storage.hold()
        self.run(self.variant["forward"], values, "")
        result = self.result
        for one in result[1:]:
            if one is not None and one != result[0]:
                values[one].storage.drop()
        self.loss = values[result[0]]
        for one in [cast.storage for cast in getattr(self, "autocast", {}).values()] + self.kept:
            one.drop()

    def run(self, code, values, prefix, scope=None):
        for instruction in code:
            kind = instruction[0]
            if kind == "op":
                self.operator(instruction, values, prefix)
            elif kind == "linear":
                self.linear(instruction, values, prefix)
            elif kind == "drop":
                for one in instruction[1:]:
                    values[one].storage.drop()
            elif kind == "layer":
                self.layer(instruction, values)
            elif kind == "repeat":
                self.repeat(instruction, values, prefix)
            elif kind == "node":
                self.attach(instruction, values, prefix)
            elif kind == "result":
                self.result = instruction[1:]

    def layer(self, instruction, values):
        _, index, arguments, outputs = instruction
        layer = self.variant["layers"][index]
        body = self.variant["bodies"][layer["body"]]
        own = {number: values[one] for number, one in enumerate(arguments)}
        self.run(body["code"], own, self.recording["modules"][layer["module"]][0] + ".")
        for number, one in zip(outputs, body["outputs"]):
            values[number] = own[one]

    def repeat(self, instruction, values, prefix):
        _, count, arguments, body, outputs = instruction
        given = [values[one] for one in arguments]
        for _ in range(self.size(count)):
            own = dict(enumerate(given))
            self.run(body["code"], own, prefix)
            given = [one if following is None else own[following] for one, following in zip(given, body["next"])]
        for number, one in zip(outputs, body["outputs"]):
            values[number] = own[one]

    def operator(self, instruction, values, prefix):
        _, name, inputs, outputs, *extra = instruction
        extra = extra[0] if extra else {}
        given = [self.look_up(one, values, prefix) for one in inputs]
        sizes, places = {}, {}
        made = []
        for position, (number, dtype, shape, *how) in enumerate(outputs):
            value = Value(None, dtype, self.shape(shape))
            if how and how[0].startswith(("view", "is")):
                value.storage = given[int(how[0].split()[-1])].storage
            else:
                sizes[position] = self.size(how[0][6:]) if how and how[0][6:].isdigit() else \
                    self.size(how[0][6:]) if how else value.bytes()
            made.append(value)
            values[number] = value
        temporaries = {}
        for one in extra.get("inside", [f"new {position}" for position in sizes]):
            if isinstance(one, str):
                position = int(one[4:])
                if position in sizes:
                    made[position].storage = Storage(self.memory, sizes[position])
                    made[position].storage.hold()
            elif one[0] == "free":
                self.memory.give(temporaries.pop(one[1]))
            else:
                temporaries[one[1]] = self.memory.take(self.size(one[0]))
        for size in temporaries.values():
            self.memory.give(size)
        for position in sizes:
            if made[position].storage is None:
                made[position].storage = Storage(self.memory, sizes[position])
                made[position].storage.hold()
        self.attach(instruction, values, prefix)
        if "kept" in extra:
            self.kept.append(made[0].storage)

    def attach(self, instruction, values, prefix):
        extra = instruction[4] if len(instruction) > 4 else {}
        if "gradient" not in extra:
            return
        given = [self.look_up(one, values, prefix) for one in instruction[2]]
        made = [values[one[0]] for one in instruction[3]]
        template = self.recording["gradients"][extra["gradient"]]
        saved = []
        for one in extra.get("saves", []):
            if isinstance(one, str) and one.startswith(("in ", "out ")):
                where, position = one.split()
                saved.append((given if where == "in" else made)[int(position)])
            else:
                saved.append(self.look_up(one, values, prefix))
        edges = []
        for position in template["edges"]:
            value = None if position is None else \
                self.look_up(extra["base"], values, prefix) if position < 0 else given[position]
            edges.append((None, 0, None) if value is None else self.edge(value))
        node = Node(self.order, template, saved, edges, len(made))
        node.prefix = prefix
        self.order += 1
        for position, value in enumerate(made):
            self.give_node(value, node, position)
        if "base" in extra:
            self.give_node(self.look_up(extra["base"], values, prefix), node, 0)

    @staticmethod
    def give_node(value, node, position):
        value.node, value.position = node, position
        value.storage.nodes.append(node)
        node.hold()

    @staticmethod
    def edge(value):
        return (value.node, value.position, value) if value.node is not None else ("leaf", value.parameter, value)

    def linear(self, instruction, values, prefix):
        _, module, reference, (number, dtype, shape) = instruction
        given = self.look_up(reference, values, prefix)
        weight = self.parameters[prefix + module + ".weight"]
        bias = self.parameters.get(prefix + module + ".bias")
        self.autocast = {} if not hasattr(self, "autocast") else self.autocast
        weight, bias = self.cast(weight, dtype, True), self.cast(bias, dtype, True)
        own = self.cast(given, dtype, False)
        output = values[number] = Value(None, dtype, self.shape(shape))
        output.storage = Storage(self.memory, output.bytes())
        output.storage.hold()
        node = Node(self.order, None, [own, weight], [self.edge(own), self.edge(weight)], 1)
        node.weight, node.bias, node.like = weight, bias, own
        if bias is not None:
            node.edges.append(self.edge(bias))
            if isinstance(node.edges[-1][0], Node):
                node.edges[-1][0].hold()
        self.order += 1
        self.give_node(output, node, 0)
        if own is not given:
            own.storage.drop()

    def cast(self, value, dtype, kept):
        """What autocast makes of an operand; of parameters it keeps the cast until it ends."""
        if value is None or value.dtype == dtype:
            return value
        if kept and value.parameter in self.autocast:
            return self.autocast[value.parameter]
        result = self.fresh(dtype, value.shape)
        if value.needs_gradient():
            node = Node(self.order, CAST, [], [self.edge(value)], 1)
            node.prefix, node.to = "", value
            self.order += 1
            self.give_node(result, node, 0)
        if kept:
            self.autocast[value.parameter] = result
        return result

    # Backward.

    def backward(self):
        root = self.loss.node
        first = Value(Storage(self.memory, self.loss.bytes()), self.loss.dtype, self.loss.shape)
        first.storage.hold()
        first.storage.hold()  # torch.autograd.backward holds it until the end.
        buffers = {root: [first] + [None] * 8}
        waiting = self.dependencies(root)
        ready = [(-root.order, root)]
        while ready:
            _, node = heapq.heappop(ready)
            for (edge, position, _), gradient in zip(node.edges, self.node(node, buffers.pop(node, None))):
                if edge == "leaf":
                    if gradient is not None and position is not None:
                        self.accumulate_leaf(position, gradient)
                    elif gradient is not None:
                        gradient.storage.release()
                    continue
                if edge is None:
                    if gradient is not None:
                        gradient.storage.release()
                    continue
                if gradient is not None:
                    self.accumulate(buffers.setdefault(edge, [None] * 9), position, gradient)
                waiting[edge] -= 1
                if waiting[edge] == 0:
                    heapq.heappush(ready, (-edge.order, edge))
        for one in (first, self.loss, *self.inputs):  # The program lets go of them after the backward pass.
            one.storage.release()

    @staticmethod
    def dependencies(root):
        waiting, seen, stack = {}, {root}, [root]
        while stack:
            for edge, _, _ in stack.pop().edges:
                if isinstance(edge, Node):
                    waiting[edge] = waiting.get(edge, 0) + 1
                    if edge not in seen:
                        seen.add(edge)
                        stack.append(edge)
        return waiting

    def node(self, node, given):
        """The gradients for the node's edges, each held once."""
        results = [None] * len(node.edges)
        if given is not None:
            if node.template is CAST:
                results = [self.fresh(node.to.dtype, node.to.shape)]
            elif node.template is None:
                results = self.linear_backward(node, given)
            else:
                results = self.templated(node, given)
            results = [gradient if gradient is None or value is None else self.fitted(gradient, value)
                       for gradient, (_, _, value) in zip(results, node.edges)]
            for one in given:
                if one is not None:
                    one.storage.release()
        node.let_go()
        return results

    def templated(self, node, given):
        values = {f"g{position}": value for position, value in enumerate(given) if value is not None}
        values.update({f"s{index}": value for index, value in enumerate(node.saved)})
        code = node.template["code"]
        for instruction in code:
            if instruction[0] == "drop":
                for one in instruction[1:]:
                    values[one].storage.release()
            else:
                self.operator(instruction, values, node.prefix)
        results = []
        for reference in node.template["results"]:
            value = self.look_up(reference, values, node.prefix)
            if value is not None:
                value.storage.hold()
            results.append(value)
        dropped = {one for instruction in code if instruction[0] == "drop" for one in instruction[1:]}
        for instruction in code:
            for number, _, _, *how in instruction[3] if instruction[0] == "op" else []:
                if not (how and how[0].startswith(("view", "is"))) and number not in dropped:
                    values[number].storage.release()
        return results

    def linear_backward(self, node, given):
        gradient, weight = given[0], node.weight
        results = [None] * len(node.edges)
        dtype = gradient.dtype
        if weight.needs_gradient():
            results[1] = self.fresh(dtype, weight.shape)
            results[1].transposed = True
        if node.edges[0][0] is not None and node.like.needs_gradient():
            results[0] = self.fresh(dtype, node.like.shape)
        if node.bias is not None and node.bias.needs_gradient():
            results[2] = self.fresh(dtype, node.bias.shape)
        return results

    def fresh(self, dtype, shape):
        value = Value(None, dtype, shape)
        value.storage = Storage(self.memory, value.bytes())
        value.storage.hold()
        return value

    def fitted(self, gradient, value):
        """What the engine makes of a gradient that has another shape or type than its tensor."""
        if math.prod(gradient.shape) != math.prod(value.shape):
            smaller = self.fresh(gradient.dtype, value.shape)
            gradient.storage.release()
            gradient = smaller
        if gradient.dtype != value.dtype:
            cast = self.fresh(value.dtype, value.shape)
            gradient.storage.release()
            gradient = cast
        return gradient

    def accumulate(self, slots, position, gradient):
        old = slots[position]
        if old is None:
            slots[position] = gradient
        elif old.storage.holders == 1 and old.storage.size >= old.bytes():
            gradient.storage.release()
        elif gradient.storage.holders == 1 and gradient.storage.size >= gradient.bytes():
            old.storage.release()
            slots[position] = gradient
        else:
            both = self.fresh(gradient.dtype, gradient.shape)
            old.storage.release()
            gradient.storage.release()
            slots[position] = both

    def accumulate_leaf(self, name, gradient):
        if name in self.gradients and not self.gradients[name].transposed:
            gradient.storage.release()
        elif name in self.gradients:
            both = self.fresh(gradient.dtype, gradient.shape)
            gradient.storage.release()
            self.gradients[name].storage.release()
            self.gradients[name] = both
        elif gradient.storage.holders == 1:
            self.gradients[name] = gradient
        else:
            self.gradients[name] = self.fresh(gradient.dtype, gradient.shape)
            gradient.storage.release()


Node.__lt__ = lambda self, other: self.order < other.order


def choose(recording, micro_batch, sequence, autocast=None):
    """The variant that holds for these sizes."""
    fitting = [variant for variant in recording["variants"]
               if holds(variant, micro_batch, sequence) and variant["autocast"] == autocast]
    return next((variant for variant in fitting if "micro_batch" in variant), None) or fitting[0]


def holds(variant, micro_batch, sequence):
    return (variant.get("micro_batch", micro_batch) == micro_batch and
            variant.get("sequence_from", 0) <= sequence < variant.get("sequence_below", sequence + 1) and
            sequence % variant.get("sequence_multiple", 1) == 0 and
            ("sequence_no_multiple" not in variant or sequence % variant["sequence_no_multiple"] != 0))


def step(recording, micro_batch, sequence, autocast=None):
    """Bytes above those before the step: forward peak and end, backward peak and end."""
    run = Step(recording, micro_batch, sequence, choose(recording, micro_batch, sequence, autocast))
    run.forward()
    figures = [run.memory.peak, run.memory.live]
    run.memory.peak = run.memory.live
    run.backward()
    return figures + [run.memory.peak, run.memory.live]


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
