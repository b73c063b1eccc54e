"""Click commands from functions, whose parameters and dataclasses declare the options.

A command that names no index takes the default index, as `git` finds its repository.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, wraps
from importlib import import_module
from inspect import Parameter
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import click

from slimdex.errors import InputError
from slimdex.system.index_names import is_index, no_index

from . import console
from .default_index import EXPECTED_INDEX, default_index

CLICK_SETTINGS = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}
"""Widest help; a narrower terminal wraps it. And the names of the option that prints it."""
Json = Annotated[bool, "--json", "Print one JSON object and nothing else."]


class Answer(NamedTuple):
    """Result of a command: its JSON, its text for people or what prints it, and its exit code."""

    facts: dict[str, Any]
    text: str | Callable[[], object]
    code: int = 0

    def show(self, as_json: bool) -> None:
        """Print the JSON or the text; raises `SystemExit` unless the code is 0."""
        if as_json:
            console.print_json(self.facts)
        elif isinstance(self.text, str):
            console.line(self.text)
        else:
            self.text()
        if self.code:
            raise SystemExit(self.code)


@dataclass(frozen=True)
class Argument:
    """Positional argument: its name in help, and its help.

    With `is_index` it is the index, or several, and may be left out: see `Command`. With
    `is_folder`, also a folder that is no index.
    """

    metavar: str
    help: str
    is_index: bool = False
    is_folder: bool = False


class IndexArgument(click.Argument):
    """The index, or several, of a `Command`."""


class FolderArgument(IndexArgument):
    """The index of a `Command`, or a folder of documents."""


class Command(click.Command):
    """Command whose options are given once, unless they can be repeated.

    The index of a command is the first word if that is an index's folder, else the default index.
    A command without another argument takes any word as its index. `FolderArgument` takes any
    folder that is written as a path, `notes/`, and without a default index also `notes`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default index before words that name none; raises `InputError` without any.

        Also raises it for an option that is given twice: the second value would win.
        """
        is_help = not {*ctx.help_option_names}.isdisjoint(args)
        if ctx.resilient_parsing or is_help:
            return super().parse_args(ctx, args)
        values, _, given = self.make_parser(ctx).parse_args([*args])
        for param in given:
            if given.count(param) > 1 and not param.multiple:
                raise InputError(f"{param.opts[-1]} was given twice; expected it once")
        if not any(isinstance(each, IndexArgument) for each in self.params):
            return super().parse_args(ctx, args)

        # The first argument's value is a word, or a tuple if it takes several.
        index, *others = [each for each in self.params if isinstance(each, click.Argument)]
        first = values.get(index.name or "")
        if isinstance(first, str):
            is_named = not others or is_index(first)
        else:
            is_named = isinstance(first, tuple) and len(first) > 0
        word = first if isinstance(first, str) else ""
        is_folder = isinstance(index, FolderArgument) and os.path.isdir(word)
        is_path = word in (".", "..") or os.path.basename(word) != word
        if is_named or (is_folder and is_path):
            return super().parse_args(ctx, args)

        default = default_index()
        if default is None and is_folder:
            return super().parse_args(ctx, args)
        if default is None:
            missing = no_index(first) if isinstance(first, str) else f"{self.name}: no index given"
            raise InputError(f"{missing}; expected {EXPECTED_INDEX}")
        return super().parse_args(ctx, [str(default), *args])


class Commands(click.Group):
    """Group of commands, each imported only when it is used.

    Parameters
    ----------
    import_paths : names of commands -> "module:function", or "module:group".
    """

    def __init__(
        self,
        import_paths: Mapping[str, str],
        help: str,
        params: list[click.Parameter] | None = None,
    ) -> None:
        super().__init__(
            help=help,
            params=params,
            no_args_is_help=True,
            context_settings=CLICK_SETTINGS,
        )
        self.import_paths = import_paths

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of `import_paths`."""
        return list(self.import_paths)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if the name is unknown."""
        if cmd_name not in self.import_paths:
            return None
        return _import(cmd_name, self.import_paths[cmd_name])


@cache
def _import(name: str, place: str) -> click.Command:
    """Import a command or group from "module:attribute"; make a command of a function."""
    module, _, attribute = place.partition(":")
    command = getattr(import_module(module), attribute)
    return command if isinstance(command, click.Command) else command_of(command, name)


def command_of(function: Callable[..., Answer | None], name: str) -> click.Command:
    """Make a command of a function, with an option for each parameter.

    `Annotated[int, "-n", "NUMBER", "Hits."]` declares an option: its names (by default the
    parameter's), the name of its value in help (by default the type), and its help. A bool is a
    flag that turns something on. `Argument` in place of the strings declares a positional argument.
    A parameter whose type is a dataclass stands for the dataclass's fields; if its default is an
    instance, their defaults are its values. What returns an `Answer` has the option --json.
    """
    # Collect the function's parameters; a dataclass is replaced by its fields. `groups` maps the
    # name of such a parameter to its dataclass and the names of the fields.
    params = list[click.Parameter]()
    groups = dict[str, tuple[Any, list[str]]]()
    signature = inspect.signature(function, eval_str=True)
    for parameter in signature.parameters.values():
        group = parameter.annotation
        default = parameter.default
        if is_dataclass(group):
            defaults = {} if default is Parameter.empty else vars(default)
            options = list(_of_fields(group, defaults))
            params += options
            groups[parameter.name] = group, [each.name for each in options if each.name]
        else:
            params.append(_declare(parameter.name, group, default))

    is_answer = signature.return_annotation is Answer
    if is_answer:
        params.append(_declare("as_json", Json, False))

    @wraps(function)
    def call(**arguments: Any) -> None:
        as_json = is_answer and arguments.pop("as_json")
        for group_name, (group, names) in groups.items():
            arguments[group_name] = group(**{field: arguments.pop(field) for field in names})
        answer = function(**arguments)
        if answer is not None:
            answer.show(as_json)

    # Make the command; its short help is the first paragraph of the docstring.
    help = inspect.getdoc(function) or ""
    first = " ".join(help.partition("\n\n")[0].split())
    return Command(
        name,
        params=params,
        callback=call,
        help=help,
        short_help=first,
        context_settings=CLICK_SETTINGS,
    )


def _of_fields(group: Any, defaults: Mapping[str, Any]) -> Iterator[click.Parameter]:
    """Yield a parameter for each field of a dataclass; `defaults` replace the fields' own."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = Parameter.empty if field.default is MISSING else field.default
        hint = hints[field.name]

        # Options of a search are declared in the field's metadata, once for all interfaces.
        option = field.metadata.get("option")
        if option:
            value = option.value or "|".join(option.choices)
            value_name = [value] if value else []
            repeated = " Can be repeated." if get_origin(hint) is Sequence else ""
            hint = Annotated[hint, *option.flags, *value_name, option.help + repeated]
        yield _declare(field.name, hint, defaults.get(field.name, default))


def _declare(name: str, annotation: Any, default: Any) -> click.Parameter:
    """Make the parameter that an annotation declares, as `command_of` describes.

    `default` is `Parameter.empty` if the parameter is required.
    """
    kind, *words = get_args(annotation)
    is_required = default is Parameter.empty
    kind, is_list = _value_type(kind)
    value_type = click.Path(path_type=Path) if kind is Path else kind
    facts: dict[str, Any] = {"required": is_required, "type": value_type}
    if is_list:
        empty = None if is_required else default
        facts["callback"] = lambda ctx, param, values: list(values) or empty
    elif not is_required:
        facts["default"] = default

    # An argument.
    if isinstance(words[0], Argument):
        declared = words[0]
        nargs = -1 if is_list else 1  # -1: any number of words
        is_needed = is_required and not declared.is_index
        metavar = declared.metavar if is_needed else f"[{declared.metavar}]"
        metavar += "..." if is_list else ""
        argument_class = IndexArgument if declared.is_index else click.Argument
        argument_class = FolderArgument if declared.is_folder else argument_class
        return argument_class([name], nargs=nargs, metavar=metavar, help=declared.help, **facts)

    # For an option, the words are its flags, the name of its value and, last, its help.
    names = [word for word in words[:-1] if word.startswith("-")]
    values = [word for word in words[:-1] if not word.startswith("-")]
    if kind is bool:
        del facts["type"]  # a flag takes no value
    return click.Option(
        [*(names or [f"--{name.replace('_', '-')}"]), name],
        metavar=values[0] if values else None,
        help=words[-1],
        multiple=is_list,
        is_flag=True if kind is bool else None,
        show_default=kind is not bool and default not in (None, "", ()),
        **facts,
    )


def _value_type(kind: Any) -> tuple[Any, bool]:
    """Return the type of one value, a text if there are several types, and whether it is a list.

    >>> _value_type(list[str] | None), _value_type(int), _value_type(str | float)
    ((<class 'str'>, True), (<class 'int'>, False), (<class 'str'>, False))
    """
    if get_origin(kind) in (Union, UnionType):
        kinds = [each for each in get_args(kind) if each is not type(None)]
        kind = kinds[0] if len(kinds) == 1 else str
    if get_origin(kind) in (list, Sequence):
        return get_args(kind)[0], True
    return kind, False
