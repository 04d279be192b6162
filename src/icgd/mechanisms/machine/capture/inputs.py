"""What a step may be captured with: model, optimizer and example, checked; every complaint at once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from icgd.errors import InvalidParameter, raise_all

PRECISIONS = (torch.float64, torch.float32)


def checked_step(
    step: object, model: object, optimizer: object, example: object, hyper: Sequence[str]
) -> torch.dtype:
    """The precision of the model, once nothing speaks against a capture."""
    if not callable(step):
        raise InvalidParameter("step", step, "be a function", remedy="Pass the body of your loop.")
    if not isinstance(model, nn.Module):
        raise InvalidParameter("model", type(model).__name__, "be a torch.nn.Module")
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise InvalidParameter(
            "optimizer", type(optimizer).__name__, "be a torch.optim.Optimizer, or None"
        )
    named = _named_tensors(model)
    data = _named_data(example)
    raise_all(
        [
            *_compiled_complaints(model),
            *_parameter_complaints(named),
            *_plain_complaints(named),
            *_plain_complaints(data),
            *_data_complaints(data),
            *(_optimizer_complaints(model, optimizer, hyper) if optimizer else ()),
        ]
    )
    dtype = precision(named.values(), default=precision(data.values()))
    raise_all(_mixture_complaints({**named, **data}, dtype))
    return dtype


def checked_function(function: object, example: object) -> torch.dtype:
    """The precision of a function of tensors, once nothing speaks against a capture."""
    if not callable(function):
        raise InvalidParameter("function", function, "be a function of tensors")
    data = _named_data(example)
    raise_all([*_plain_complaints(data), *_data_complaints(data)])
    dtype = precision(data.values())
    raise_all(_mixture_complaints(data, dtype))
    return dtype


def precision(tensors: Any, default: torch.dtype = torch.float64) -> torch.dtype:
    """The precision of the first tensor of floating numbers."""
    return next((t.dtype for t in tensors if t.is_floating_point()), default)


def _named_tensors(model: nn.Module) -> dict[str, Tensor]:
    parameters = {f"parameter `{name}`": p.detach() for name, p in model.named_parameters()}
    buffers = {f"buffer `{name}`": b.detach() for name, b in model.named_buffers()}
    return parameters | buffers


def _named_data(example: object) -> dict[str, Tensor]:
    """Tensors of an example by what they are called in a message."""
    if not isinstance(example, (tuple, list)) or not example:
        raise InvalidParameter(
            "example",
            type(example).__name__ if not isinstance(example, (tuple, list)) else example,
            "be a tuple with the arguments of one call, tensors all of them",
            remedy="For step(x, y) pass example=(x, y).",
        )
    named: dict[str, Tensor] = {}
    for path, value in pytree.tree_flatten_with_path(tuple(example))[0]:
        name = f"example[{key_path(path)}]"
        if not isinstance(value, Tensor):
            raise InvalidParameter(
                name,
                type(value).__name__,
                "be a tensor",
                remedy="Convert numbers and arrays with torch.as_tensor, "
                "or bind what never changes inside the step.",
            )
        named[name] = value
    if not named:
        raise InvalidParameter("example", example, "hold at least one tensor")
    return named


def key_path(path: Sequence[Any]) -> str:
    """Where a leaf stands in a nest of tuples and dictionaries."""
    return ".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)


def _parameter_complaints(named: Mapping[str, Tensor]) -> Iterator[str]:
    for name, tensor in named.items():
        if (
            name.startswith("parameter")
            and not tensor.is_floating_point()
            and not tensor.is_complex()
        ):
            yield (
                f"{name} holds {_kind(tensor)}: integers have no gradients. Register it as a buffer, "
                "or convert it with .double()."
            )


def _compiled_complaints(model: nn.Module) -> Iterator[str]:
    for name, module in model.named_modules():
        if isinstance(getattr(module, "_orig_mod", None), nn.Module):
            yield (
                f"{f'module `{name}`' if name else '`model`'} is compiled by torch.compile. Use the module "
                "that it wraps (._orig_mod), in the step too."
            )


def _plain_complaints(named: Mapping[str, Tensor]) -> Iterator[str]:
    """Tensors the machine has no numbers for."""
    for name, tensor in named.items():
        if tensor.is_complex():
            yield (
                f"{name} is complex ({_kind(tensor)}). Use its real and imaginary parts as two tensors "
                "(torch.view_as_real)."
            )
        elif tensor.is_floating_point() and tensor.dtype not in PRECISIONS:
            yield f"{name} is {_kind(tensor)}: too few digits. Convert it with .double() or .float()."
        if tensor.layout != torch.strided:
            yield f"{name} is {_kind(tensor)} with layout {tensor.layout}. Convert it with .to_dense()."
        elif tensor.device.type != "cpu":
            yield f"{name} lives on device {tensor.device}, the machine on cpu. Move it with .cpu()."
        elif type(tensor.data) not in (Tensor, nn.Parameter):
            yield f"{name} is a {type(tensor).__name__}, not a plain tensor. Pass plain tensors."
        elif not tensor.is_complex() and not bool(torch.isfinite(tensor).all()):
            where = tuple((~torch.isfinite(tensor)).nonzero()[0].tolist())
            yield f"{name} holds {float(tensor[where])} at {where}. Pass finite numbers."


def _data_complaints(data: Mapping[str, Tensor]) -> Iterator[str]:
    for name, tensor in data.items():
        if tensor.requires_grad:
            yield (
                f"{name} requires a gradient. Pass it detached; for a gradient with respect to it, call "
                ".requires_grad_() on it in the step."
            )
        if tensor.numel() == 0:
            yield f"{name} is empty (shape {tuple(tensor.shape)}). Pass at least one example."


def _mixture_complaints(named: Mapping[str, Tensor], dtype: torch.dtype) -> list[str]:
    odd = [
        f"{name} is {_kind(tensor)}"
        for name, tensor in named.items()
        if tensor.is_floating_point() and tensor.dtype != dtype
    ]
    if not odd:
        return []
    return [
        f"Precisions are mixed: the machine computes in one, here {_short(dtype)}, but {', '.join(odd)}. "
        "Convert model and data with .double(), or both with .float()."
    ]


def _optimizer_complaints(
    model: nn.Module, optimizer: Optimizer, hyper: Sequence[str]
) -> Iterator[str]:
    known = {id(p) for p in model.parameters()}
    for index, group in enumerate(optimizer.param_groups):
        foreign = [tuple(p.shape) for p in group["params"] if id(p) not in known]
        if foreign:
            yield (
                f"The optimizer's group {index} holds parameters of shapes {foreign} that are not in the "
                "model. Make them parameters of the module that you pass as `model`."
            )
        for key in hyper:
            value = group.get(key, 0.0)
            if isinstance(value, bool) or not isinstance(value, (int, float, Tensor)):
                yield f"`{key}` of the optimizer's group {index} is {value!r}, not a number."
            elif isinstance(value, Tensor) and value.numel() != 1:
                yield f"`{key}` of the optimizer's group {index} has shape {tuple(value.shape)}."
    absent = [k for k in hyper if all(k not in group for group in optimizer.param_groups)]
    if absent:
        there = sorted(k for k in optimizer.param_groups[0] if k != "params")
        yield (
            f"`hyper` names {', '.join(absent)}, but {type(optimizer).__name__} has {', '.join(there)}."
        )
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        yield (
            f"{type(optimizer).__name__} calls a closure as often as the data want, so its step is not one "
            "fixed sequence. Use an optimizer whose step() needs no closure."
        )


def _kind(tensor: Tensor) -> str:
    return _short(tensor.dtype)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
