"""Flat signatures: commands take dataclasses of options; Typer sees a parameter for each field."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, get_args, get_type_hints

import typer


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a dataclass by the dataclass's fields.

    `Annotated[int, "-n", "NUMBER", "Hits."]` declares an option: its names (by default the
    parameter's), the name of its value in help (by default the type), and its help. A bool is a
    flag that turns something on. `Annotated` with an object of Typer is left to Typer. If the
    default of a dataclass is an instance, its values are the defaults of the fields.
    """
    parameters, groups = list[Parameter](), dict[str, tuple[Any, list[str]]]()
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if is_dataclass(group):
            found = _fields(parameter.annotation)
            if parameter.default is not Parameter.empty:
                values = vars(parameter.default)
                found = [each.replace(default=values[each.name]) for each in found]
            groups[parameter.name] = group, [each.name for each in found]
            parameters += found
        else:
            parameters.append(_declared(parameter.name, group, parameter.default))

    @wraps(command)
    def called(**given: Any) -> None:
        for name, (group, names) in groups.items():
            given[name] = group(**{field: given.pop(field) for field in names})
        command(**given)

    called.__annotations__ = {each.name: each.annotation for each in parameters}
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return called


@cache
def _fields(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [_declared(field.name, hints[field.name], field.default) for field in fields(group)]


def _declared(name: str, annotation: Any, default: Any) -> Parameter:
    kind, *words = get_args(annotation)
    if isinstance(words[-1], str):
        names = [word for word in words[:-1] if word.startswith("-")]
        metavar = next((word for word in words[:-1] if word not in names), None)
        if kind is bool and not names:
            names = [f"--{name.replace('_', '-')}"]
        annotation = Annotated[kind, typer.Option(*names, metavar=metavar, help=words[-1])]
    default = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
