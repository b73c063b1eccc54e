"""Flat signatures: a command takes dataclasses of options, and Typer sees one parameter a field."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, get_args, get_type_hints

import typer


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a dataclass by the dataclass's fields.

    `Annotated[int, "-n", "NUMBER", "Hits."]` declares an option: its names, if they are not the
    parameter's, what help calls its value, if that is not the type, and its help. A bool is a flag
    that turns something on. `Annotated` with an object of Typer is as Typer has it.
    Where a dataclass has a default, which is an instance, the fields have its values as defaults.
    """
    parameters, groups = list[Parameter](), dict[str, tuple[Any, list[str]]]()
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        found = [parameter]
        if is_dataclass(parameter.annotation):
            found = list(_fields(parameter))
            groups[parameter.name] = parameter.annotation, [each.name for each in found]
        parameters += map(_declared, found)

    @wraps(command)
    def called(**given: Any) -> None:
        for name, (group, names) in groups.items():
            given[name] = group(**{field: given.pop(field) for field in names})
        command(**given)

    called.__annotations__ = {each.name: each.annotation for each in parameters}
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return called


def _fields(parameter: Parameter) -> Iterator[Parameter]:
    group, instance = parameter.annotation, parameter.default
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = field.default if instance is Parameter.empty else getattr(instance, field.name)
        yield Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if default is MISSING else default,
            annotation=hints[field.name],
        )


def _declared(parameter: Parameter) -> Parameter:
    parameter = parameter.replace(kind=Parameter.KEYWORD_ONLY)
    kind, *words = get_args(parameter.annotation)
    if not isinstance(words[-1], str):
        return parameter
    names = [word for word in words[:-1] if word.startswith("-")]
    metavar = next((word for word in words[:-1] if word not in names), None)
    if kind is bool and not names:
        names = [f"--{parameter.name.replace('_', '-')}"]
    option = typer.Option(*names, metavar=metavar, help=words[-1])
    return parameter.replace(annotation=Annotated[kind, option])
