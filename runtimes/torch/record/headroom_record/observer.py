"""Watches a model's code below autograd: operators, views, writes in place, lifetimes and backward nodes."""

import sys
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .blocks import CONVOLUTIONS, cudnn_copies
from .host_values import HostValues
from .schema import DTYPES, Operator, flat_tensors, geometry

_TORCH = torch.__path__[0]
_OURS = __file__.rsplit("/", 1)[0]
_MOST_TURNS = 20_000
_ALL = "elements found: tokens of an expert by uniform routing, elsewhere all"
# Operators whose sizes or work depend on values, and what the stand-in GPU assumes of these.
_DATA = {"nonzero": _ALL, "masked_select": _ALL, "argwhere": _ALL, "unique": "every element is found once",
         "_unique2": "every element is found once", "_grouped_mm": "rows of each expert: any, their sum is known",
         "transformers::grouped_mm_fallback": "rows of each expert: uniform routing"}
_set_mark = torch._C._cuda_setMemoryMetadata


class TooManyTurns(Exception):
    """A loop that turns once for every token: its recording would be as long as the sequence."""


class Storage:
    """One block of device memory while a scope's code runs."""

    __slots__ = ("owner", "values", "source")

    def __init__(self, owner: Any):
        self.owner = owner  # The value that made it, or the name of a parameter or buffer.
        self.values: Dict[Tuple[Any, ...], Any] = {}


class Scope:
    """Code that is being recorded: a forward pass, the building of a model, or one backward node."""

    def __init__(self, name: str):
        self.name = name
        self.code: List[List[Any]] = []
        self.places: List[Tuple[str, int]] = []
        self.count = 0
        self.storages: Dict[int, Storage] = {}
        self.made: Dict[int, List[Any]] = {}  # The operator that made a value.
        self.inputs: List[List[Any]] = []  # Name, type and shape of what a forward pass is given.
        self.closed = False
        self._turns: Dict[Tuple[str, int], int] = {}  # Operators by line of Python, in the current layer.
        self.most: Tuple[int, Tuple[str, int]] = (0, ("", 0))

    def number(self) -> int:
        self.count += 1
        return self.count - 1

    def emit(self, instruction: List[Any], place: Tuple[str, int] = ("", 0)) -> None:
        self.code.append(instruction)
        self.places.append(place)
        if instruction[0] == "#begin":
            self._turns.clear()
        elif place[0]:
            count = self._turns[place] = self._turns.get(place, 0) + 1
            if count > self.most[0]:
                self.most = count, place
            if count > _MOST_TURNS:
                raise TooManyTurns(self.why_too_many())

    def why_too_many(self) -> str:
        count, (file, line) = self.most
        return f"{file}:{line} runs {count} operators in one layer, more than a recording takes"

    def drop(self, owner: Any) -> None:
        if self.closed:
            return
        if self.code and self.code[-1][0] == "drop":
            self.code[-1].append(owner)
        else:
            self.emit(["drop", owner])

    def drop_later(self, start: int, saved: Set[int]) -> None:
        """The drops since `start` of what the newest node saves stand behind it: there Python's names have gone, but
        the node has the tensors."""
        made = [one for one in self.code[start:] if one[0] == "op"]
        for _, _, inputs, outputs, *_ in reversed(made):
            for value, *rest in outputs:
                view = rest[-1] if isinstance(rest[-1], str) else ""
                if value in saved and view.startswith("view of "):
                    saved.add(inputs[int(view.split()[-1])])
        late: List[Any] = []
        for at in range(len(self.code) - 1, start - 1, -1):
            if self.code[at][0] == "drop":
                late = [one for one in self.code[at][1:] if one in saved] + late
                self.code[at][1:] = [one for one in self.code[at][1:] if one not in saved]
                if len(self.code[at]) == 1:
                    del self.code[at], self.places[at]
        for one in late:
            self.drop(one)


class Node:
    """A backward node that belongs to an instruction."""

    __slots__ = ("function", "instruction", "edges", "saved", "outputs", "tensors")

    def __init__(self, function: Any, instruction: Optional[List[Any]]):
        self.function = function  # Keeps the node alive, so that its identity stays its own.
        self.instruction = instruction  # None: a node inside a `linear`.
        self.edges: List[Optional[int]] = []
        self.saved: List[Any] = []
        self.tensors: Optional[List[bool]] = None  # Which arguments of a custom function are tensors.
        self.outputs: Dict[int, int] = {}  # From autograd's output numbers to positions among the outputs.


class Saved:
    """Stands for a tensor that autograd saved: the tensor itself lives only as long as Python holds it."""

    __slots__ = ("key", "value", "stand_in")

    def __init__(self, key: Any, value: Any, stand_in: torch.Tensor):
        self.key = key  # Storage and geometry of the tensor.
        self.value = value  # What the scope calls it, if it is known there.
        self.stand_in = stand_in


def place_of_caller() -> Tuple[str, int]:
    """The innermost line of Python that is neither PyTorch's nor the recorder's."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_TORCH) and not file.startswith(_OURS) and "headroom_dryrun" not in file:
            return file, frame.f_lineno
        frame = frame.f_back
    return "", 0


class Observer(TorchDispatchMode):
    """Records into the current scope; without one, operators run unseen."""

    def __init__(self) -> None:
        super().__init__()
        self.scope: Optional[Scope] = None
        self.nodes: Dict[int, Node] = {}
        self.saved: Dict[int, Saved] = {}  # By the storage of what stands for them.
        self.windows: List[Tuple[Optional[List[Any]], List[Tuple[int, int]]]] = []
        self.resolve: Callable[[torch.Tensor], Any] = lambda tensor: None
        self._operators: Dict[Any, Operator] = {}
        self._pending: List[Tuple[Any, Any, List[Any], int]] = []
        self._edges: Dict[int, List[Any]] = {}
        self._keys: Dict[int, List[Any]] = {}
        self.with_nodes = False
        self.values: Optional[HostValues] = None  # Where batches have images, whose sizes are read from the device.

    # What values are called.

    def name(self, tensor: torch.Tensor, value: Any) -> None:
        tensor._headroom_value = (self.scope, value, self.scope.storages.get(tensor.untyped_storage()._cdata))

    def reference(self, tensor: Optional[torch.Tensor]) -> Any:
        """The value that a tensor is in this scope."""
        if tensor is None:
            return None
        known = getattr(tensor, "_headroom_value", None)
        storage = self.scope.storages.get(tensor.untyped_storage()._cdata)
        # The storage is another one where `tensor.data = ...` has put it.
        if known is not None and known[0] is self.scope and known[2] is storage:
            return known[1]
        if storage is not None:
            value = storage.values.get(geometry(tensor))
            if value is not None:
                return value
            return self._unseen_view(tensor, storage)
        value = self.resolve(tensor)
        if value is None:  # A module keeps it, but not as a buffer.
            return self._appeared(tensor, "constant", [("bytes", (0,))])
        return value

    def _appeared(self, tensor: torch.Tensor, operator: str, how: List[Any]) -> int:
        value = self.scope.number()
        instruction = ["op", operator, [], [[value, DTYPES[tensor.dtype], tuple(tensor.shape)] + how], {}]
        self.scope.emit(instruction, place_of_caller())
        self.scope.made[value] = instruction
        self.adopt(tensor, value, owned=not how)
        return value

    def _unseen_view(self, tensor: torch.Tensor, storage: Storage) -> Any:
        value = self.scope.number()
        self.scope.emit(["op", "view", [storage.owner],
                         [[value, DTYPES[tensor.dtype], tuple(tensor.shape), "view of 0"]], {}], place_of_caller())
        storage.values[geometry(tensor)] = value
        return value

    def adopt(self, tensor: torch.Tensor, value: Any, owned: bool = True) -> Storage:
        """Makes the storage of `tensor` known under `value`."""
        scope = self.scope
        storage = tensor.untyped_storage()
        key = storage._cdata
        record = scope.storages.get(key)
        if record is None:
            record = scope.storages[key] = Storage(value)
            if owned:
                weakref.finalize(storage, self._gone, scope, key, record).atexit = False
        record.values[geometry(tensor)] = value
        self.name(tensor, value)
        return record

    @staticmethod
    def _gone(scope: Scope, key: int, record: Storage) -> None:
        if scope.storages.get(key) is record:
            del scope.storages[key]
            scope.drop(record.owner)

    # Operators.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.dispatch(func, args, kwargs)

    def dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        kwargs = kwargs or {}
        scope = self.scope
        if scope is None:
            return self._run(func, args, kwargs)
        if self._pending:
            self.settle()
        operator = self._operators.get(func)
        if operator is None:
            operator = self._operators[func] = Operator(func)
        tensors = operator.inputs(args, kwargs)
        if operator.name == "detach" and tensors[0] is not None:
            unpacked = self.saved.get(tensors[0].untyped_storage()._cdata)
            if unpacked is not None:  # Autograd unpacks a saved tensor.
                result = self._run(func, args, kwargs)
                return result
        if operator.name in ("_local_scalar_dense", "record_stream"):
            return self._run(func, args, kwargs)
        if operator.name == "lift_fresh":  # A tensor made from numbers: copied to the device before it is seen.
            result = self._run(func, args, kwargs)
            if result.is_cuda and result.untyped_storage()._cdata not in scope.storages:
                self._appeared(result, "lift_fresh", [])
            return result
        place = place_of_caller()
        inputs = [self.reference(tensor) for tensor in tensors]
        edges = [self._edge(tensor, value) for tensor, value in zip(tensors, inputs)] if self.with_nodes else None
        keys = [self._key(tensor) for tensor in tensors] if self.with_nodes else None
        base = None
        if edges is not None and func._schema.is_mutable:
            base = next((one._base for one in tensors if one is not None and one._is_view()), None)
            if base is not None:
                edges.append(self._edge(base, self.reference(base)))
        _set_mark(str(len(self.windows)))
        try:
            result = self._run(func, args, kwargs)
        finally:
            _set_mark("")
        found = flat_tensors(result)
        if not found and not any(tensor is not None for tensor in tensors):
            return result
        extra: Dict[str, Any] = {}
        numbers = operator.numbers(args, kwargs)
        if numbers:
            extra["scalars"] = numbers
        if operator.name in _DATA:
            extra["data"] = _DATA[operator.name]
        outputs: List[List[Any]] = []
        instruction = ["op", operator.name, inputs, outputs, extra]
        scope.emit(instruction, place)
        blocks: List[Tuple[int, int]] = []
        for position, tensor in enumerate(found):
            self._output(tensor, position, tensors, outputs, blocks)
            if edges is not None:
                self._pending.append((weakref.ref(tensor), None if base is None else weakref.ref(base), instruction,
                                      position))
        if self.values is not None and operator.name in CONVOLUTIONS:
            copies = cudnn_copies(tensors)
            if copies:
                extra["inside"] = copies + [f"new {position}" for position, _ in blocks]
            self.windows.append((None, []))
        else:
            self.windows.append((instruction, blocks))
        if edges is not None:
            self._edges[id(instruction)] = edges
            self._keys[id(instruction)] = keys
        return result

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs) if self.values is None else self.values.call(func, args, kwargs)

    def _key(self, tensor: Optional[torch.Tensor]) -> Any:
        """The storage and geometry of an operator's input, by which saved tensors are found again."""
        if tensor is None:
            return None
        storage = tensor.untyped_storage()._cdata
        return self.scope.storages.get(storage, storage), geometry(tensor)

    def _output(self, tensor: torch.Tensor, position: int, tensors: List[Optional[torch.Tensor]],
                outputs: List[List[Any]], blocks: List[Tuple[int, int]]) -> None:
        scope = self.scope
        storage = tensor.untyped_storage()
        key = storage._cdata
        value = scope.number()
        output = [value, DTYPES[tensor.dtype], tuple(tensor.shape)]
        for index, one in enumerate(tensors):
            if one is not None and one is tensor:
                output.append(f"is {index}")
                break
        else:
            for index, one in enumerate(tensors):
                if one is not None and one.untyped_storage()._cdata == key:
                    output.append(f"view of {index}")
                    break
        outputs.append(output)
        scope.made[value] = self._last()
        if len(output) == 3:
            if key not in scope.storages:
                blocks.append((position, storage.data_ptr() if storage.nbytes() else 0))
                held = storage.nbytes()
                if held != tensor.numel() * tensor.element_size():
                    output.append(("bytes", (held,)))
            else:
                output.append("view of " + str(next(
                    (at for at, other in enumerate(outputs[:-1])
                     if other[0] in scope.storages[key].values.values()), "?")))
        if key in scope.storages or len(output) == 3 or isinstance(output[3], tuple):
            self.adopt(tensor, value)
        else:
            self.name(tensor, value)

    def _last(self) -> List[Any]:
        return self.scope.code[-1]

    # Nodes.

    def _edge(self, tensor: Optional[torch.Tensor], value: Any) -> Any:
        """What autograd's edge to this input is known by."""
        if tensor is None or not tensor.requires_grad:
            return None
        function = tensor.grad_fn
        if function is None:
            return ("leaf", id(tensor))
        if id(function) not in self.nodes and isinstance(value, int):
            made = self.scope.made.get(value)
            if made is not None:
                self._attach(made, value, tensor, function)
        return (id(function), tensor.output_nr)

    def edge_of_input(self, tensor: torch.Tensor) -> None:
        """Finds the node of a tensor that goes into code that is not recorded."""
        if self.with_nodes:
            self._edge(tensor, self.reference(tensor))

    def settle(self) -> None:
        """Looks at the nodes of the outputs of the last operator."""
        pending, self._pending = self._pending, []
        for reference, base_reference, instruction, position in pending:
            base = base_reference() if base_reference is not None else None
            if base is not None and base.grad_fn is not None:
                self._attach_to_base(instruction, base)
                continue
            tensor = reference()
            if tensor is not None and tensor.requires_grad:
                function = tensor.grad_fn
                if function is not None:
                    self._attach(instruction, instruction[3][position][0], tensor, function)

    def _attach_to_base(self, instruction: List[Any], base: torch.Tensor) -> None:
        """The node of a write into a view belongs to the tensor that the view is of."""
        function = base.grad_fn
        if id(function) in self.nodes or "node" in instruction[4]:
            return
        instruction[4]["base"] = self.reference(base)
        node = self.nodes[id(function)] = Node(function, instruction)
        instruction[4]["node"] = node
        self._find_edges(node, self._edges.get(id(instruction), []))
        node.edges = [-1 if edge == len(instruction[2]) else edge for edge in node.edges]
        self._find_saved(node, self._keys.get(id(instruction), []))
        node.outputs[base.output_nr] = 0

    def _attach(self, instruction: List[Any], value: int, tensor: torch.Tensor, function: Any) -> None:
        node = self.nodes.get(id(function))
        if node is None:
            if "node" in instruction[4] or instruction[0] != "op":
                instruction = self._regenerated(instruction, value, tensor, function)
            node = self.nodes[id(function)] = Node(function, instruction)
            instruction[4]["node"] = node
            edges = self._edges.get(id(instruction), [])
            self._find_edges(node, edges)
            self._find_saved(node, self._keys.get(id(instruction), []))
        for position, output in enumerate(node.instruction[3] if node.instruction else ()):
            if output[0] == value:
                node.outputs[tensor.output_nr] = position

    def _regenerated(self, instruction: List[Any], value: int, tensor: torch.Tensor, function: Any) -> List[Any]:
        """A view whose base was written in place has a new node."""
        base = tensor._base
        inputs = [self.reference(base)] if base is not None else []
        edges = [self._edge(base, inputs[0])] if base is not None else []
        made = ["node", function.name(), inputs, [[value]], {}]
        self.scope.emit(made, place_of_caller())
        self._edges[id(made)] = edges
        return made

    def launched(self, name: str, tensors: List[Any]) -> None:
        """A kernel that no operator of PyTorch launches."""
        if self.scope is not None:
            self.settle()
            inputs = [self.reference(tensor) for tensor in tensors]
            self.scope.emit(["op", name, inputs, [], {}], place_of_caller())

    def custom(self, original: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """A call of a custom autograd function: its node belongs to no single operator."""
        if self.scope is None or not self.with_nodes or not torch.is_grad_enabled():
            return original(*args, **kwargs)
        self.settle()
        tensors = [one if isinstance(one, torch.Tensor) and one.is_cuda else None for one in args]
        inputs = [self.reference(tensor) for tensor in tensors]
        edges = [self._edge(tensor, value) for tensor, value in zip(tensors, inputs)]
        keys = [self._key(tensor) for tensor in tensors]
        del tensors
        start = len(self.scope.code)
        result = original(*args, **kwargs)
        self._pending = []
        if self.scope is None:
            return result
        outputs = [one for one in flat_tensors(result) if one.grad_fn is not None]
        if outputs:
            function = outputs[0].grad_fn
            made = ["node", function.name(), inputs, [[self.reference(one)] for one in outputs], {}]
            self.scope.emit(made, place_of_caller())
            self._edges[id(made)], self._keys[id(made)] = edges, keys
            node = self.nodes[id(function)] = Node(function, made)
            node.tensors = [isinstance(one, torch.Tensor) for one in args]
            made[4]["node"] = node
            self._find_edges(node, edges)
            self._find_saved(node, keys)
            for position, one in enumerate(outputs):
                node.outputs[one.output_nr] = position
            self.scope.drop_later(start, {one for one in made[4].get("saves", ()) if isinstance(one, int)})
        return result

    def _find_edges(self, node: Node, edges: List[Any]) -> None:
        start = 0
        for function, number in node.function.next_functions:
            if function is None:
                continue
            variable = getattr(function, "variable", None)
            key = (id(function), number) if variable is None else ("leaf", id(variable))
            found = next((at for at in range(start, len(edges)) if edges[at] == key), None)
            if found is None:
                found = next((at for at, one in enumerate(edges) if one == key), None)
            if found is not None:
                start = found + 1
            node.edges.append(found)

    def _find_saved(self, node: Node, keys: List[Any]) -> None:
        scope, self.scope = self.scope, None
        try:
            tensors = [tensor for tensor in saved_tensors(node.function) if tensor.is_cuda]
        finally:
            self.scope = scope
        outputs = [output[0] for output in node.instruction[3]]
        references = []
        for tensor in tensors:
            storage = tensor.untyped_storage()._cdata
            node.saved.append(storage)
            saved = self.saved.get(storage)
            if saved is None:
                saved = Saved(self._key(tensor), self.reference(tensor), tensor)
            if saved.key in keys:
                references.append(f"in {keys.index(saved.key)}")
            elif saved.value in outputs:
                references.append(f"out {outputs.index(saved.value)}")
            else:
                references.append(saved.value)
        if references:
            node.instruction[4]["saves"] = references

    # What autograd saves.

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_cuda:
            return tensor
        scope, self.scope = self.scope, None
        try:
            stand_in = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        finally:
            self.scope = scope
        storage, shape = tensor.untyped_storage()._cdata, geometry(tensor)
        record = scope.storages.get(storage) if scope is not None else None
        value = record.values.get(shape) if record is not None else None
        self.saved[stand_in.untyped_storage()._cdata] = Saved((record or storage, shape), value, stand_in)
        if self.values is not None:
            self.values.hand_on(tensor, stand_in)
        return stand_in

    @staticmethod
    def unpack(stand_in: torch.Tensor) -> torch.Tensor:
        return stand_in


_FIELDS: Dict[type, List[str]] = {}


def saved_tensors(function: Any) -> List[torch.Tensor]:
    """The tensors that a node keeps, in the order of its fields."""
    kind = type(function)
    if kind not in _FIELDS:
        _FIELDS[kind] = [name for name in kind.__dict__ if name.startswith("_saved_")]
    found: List[torch.Tensor] = []
    for name in _FIELDS[kind]:
        value = getattr(function, name)
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(one for one in value if isinstance(one, torch.Tensor))
    if not _FIELDS[kind] and hasattr(function, "saved_tensors"):
        found.extend(one for one in function.saved_tensors if one is not None)
    return found


# PyTorch wraps the function of every dispatch mode against compilation, which nobody does here.
Observer.__torch_dispatch__ = lambda self, func, types, args=(), kwargs=None: self.dispatch(func, args, kwargs)
