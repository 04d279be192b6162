"""Which line of the user's code each node of a graph comes from, and in which phase of the step.

While the step runs under the tracer, a function mode sees every call of torch, looks up the innermost frame
of the user's own files, and labels the nodes that the call writes. The autograd nodes that a call leaves
behind carry its line too: hooks on them label what the backward pass writes.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from icgd.mechanisms.machine.capture.captured import ORIGIN, Origin, origin_of

TORCH = str(Path(torch.__file__).parent)
OURS = str(Path(__file__).parent.parent)
TEXTBOOK = str(Path(__file__).parent / "textbook.py")
AUTOGRAD = str(Path(TORCH) / "autograd" / "__init__.py")
UPDATING = (
    str(Path(TORCH) / "optim"),
    str(Path(TORCH) / "nn" / "utils" / "clip_grad.py"),
    str(Path(__file__).parent / "flat.py"),
)
LAYERS = str(Path(TORCH) / "nn" / "modules")


def is_users(filename: str) -> bool:
    """Not PyTorch's, not ours; the textbook step stands for the user's own.

    >>> is_users("train.py"), is_users(torch.__file__)
    (True, False)
    """
    if filename == TEXTBOOK:
        return True
    return not filename.startswith((TORCH, OURS, "<frozen", "<string", "<eval_with"))


def frames(innermost: FrameType | None) -> Iterator[FrameType]:
    """Frames from the innermost outwards, up to where this package calls the step."""
    frame = innermost
    while frame is not None and frame.f_code.co_name != _BOUNDARY:
        yield frame
        frame = frame.f_back


_BOUNDARY = "call_the_users_step"
"""Name of the function through which every traced step is called."""


def call_the_users_step(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call it; nothing outside this frame is a line of the step."""
    return function(*arguments)


def current_origin(layers: dict[int, str]) -> Origin:
    """The innermost line of the user's, with the phase that the frames inside it show.

    layers  names of the model's modules by id: where no line of the user's names the layer, the text does
    """
    phase, layer = "forward", ""
    for frame in frames(sys._getframe(2)):
        name = frame.f_code.co_filename
        if name == AUTOGRAD:
            phase = "backward"
        elif name.startswith(UPDATING) or _steps_an_optimizer(frame):
            phase = "update"
        elif not layer and name.startswith(LAYERS) and frame.f_code.co_name == "forward":
            layer = _layer(frame, layers)
        if is_users(name):
            text = shortened(linecache.getline(name, frame.f_lineno, frame.f_globals))
            if name == TEXTBOOK and layer:
                text = f"{text}  # {layer}"
            return Origin(Path(name).name, frame.f_lineno, text, phase)
    return Origin(phase=phase)


def shortened(text: str, limit: int = 110) -> str:
    """One line of source without indentation, and without its end if it is long.

    >>> shortened("    y = f(x)\\n"), shortened("a" * 200, 10)
    ('y = f(x)', 'aaaaaaa...')
    """
    text = text.strip()
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _steps_an_optimizer(frame: FrameType) -> bool:
    """Whether the frame is `step` of an optimizer, the user's own ones included."""
    owner = frame.f_locals.get("self") if frame.f_code.co_name == "step" else None
    return isinstance(owner, torch.optim.Optimizer)


def _layer(frame: FrameType, layers: dict[int, str]) -> str:
    module = frame.f_locals.get("self")
    if not isinstance(module, nn.Module) or id(module) not in layers:
        return ""
    return f"{layers[id(module)]}: {type(module).__name__}"


class Labels:
    """Gives the nodes of the graph being traced the origin that was current when they were written."""

    def __init__(self) -> None:
        self.current = Origin()

    def settle(self) -> None:
        """Label what has been written since the last call."""
        mode = get_proxy_mode()
        if mode is None:
            return
        for node in reversed(mode.tracer.graph.nodes):
            if node.op == "placeholder" or ORIGIN in node.meta:
                break
            node.meta[ORIGIN] = self.current

    def switch(self, origin: Origin) -> None:
        """What is written from here on comes from there."""
        self.settle()
        self.current = origin


class Watching(TorchFunctionMode):
    """Labels the nodes of every call of torch in the forward pass, the backward pass and the update."""

    def __init__(self, labels: Labels, model: nn.Module | None) -> None:
        super().__init__()
        self.labels = labels
        modules = model.named_modules() if model is not None else ()
        self.layers = {id(module): name or "model" for name, module in modules}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        origin = current_origin(self.layers)
        if func is Tensor.backward:
            origin = origin.during("backward")
        self.labels.switch(origin)
        result = func(*args, **(kwargs or {}))
        for value in pytree.tree_leaves(result):
            if isinstance(value, Tensor) and value.grad_fn is not None:
                self._label_backward(value.grad_fn, origin)
        return result

    def __exit__(self, *error: Any) -> None:
        self.labels.settle()
        super().__exit__(*error)

    def _label_backward(self, root: Any, origin: Origin) -> None:
        """Autograd nodes that this call left behind speak of its line when they run."""

        def speak(_gradients: Any) -> None:
            self.labels.switch(origin.during("backward"))

        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node is None or ORIGIN in node.metadata or not hasattr(node, "register_prehook"):
                continue
            node.metadata[ORIGIN] = origin
            if (
                node.next_functions
            ):  # leaves collect gradients: what they add belongs to their caller
                node.register_prehook(speak)
            waiting += [following for following, _ in node.next_functions]


class Replay(fx.Interpreter):
    """Runs a labelled graph under a second trace; what a node becomes keeps its origin."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph)
        self.labels = Labels()

    def run_node(self, n: fx.Node) -> Any:
        """Run one node and pass its label on."""
        self.labels.switch(origin_of(n))
        result = super().run_node(n)
        self.labels.settle()
        return result


def settle_phases(graph: fx.Graph) -> None:
    """What follows the last backward pass and depends on one belongs to the update: clipping, for instance."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    last = max((i for i, n in enumerate(nodes) if origin_of(n).phase == "backward"), default=None)
    if last is None:
        if not any(origin_of(n).phase == "update" for n in nodes):
            for node in nodes:  # a function, nothing is trained
                node.meta[ORIGIN] = origin_of(node).during("")
        return
    downstream: set[fx.Node] = set()
    for index, node in enumerate(nodes):
        origin = origin_of(node)
        if origin.phase == "backward" or any(n in downstream for n in node.all_input_nodes):
            downstream.add(node)
            if index > last and origin.phase == "forward":
                node.meta[ORIGIN] = origin.during("update")
