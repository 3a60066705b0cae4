"""Application of rules to arguments, with errors that list the options and show a correct call."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from ._rules import Rule, whole

__all__ = ["RULES", "Text", "declares", "explained", "resembles", "unknown", "whole"]

#: The attribute of a checked callable that holds its rules.
RULES = "__cntk_reader_rules__"

Explained = TypeVar("Explained", bound=Callable[..., object])


class Text(str):
    """A text that KeyError shows without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _plain(name: str) -> str:
    """Removes the differences between spellings of CNTK and Python from a name."""
    return name.replace("_", "").lower()


#: Words of other libraries and languages, and the names that have their meaning here.
_SYNONYMS = {
    "alias": "field",
    "batchsize": "minibatch_size",
    "channels": "shape",
    "dim": "shape",
    "droplast": "drop_last",
    "epochs": "max_sweeps",
    "file": "filename",
    "float32": "float",
    "float64": "double",
    "format": "is_sparse",
    "numepochs": "max_sweeps",
    "numreplicas": "workers",
    "path": "filename",
    "seed": "randomization_seed",
    "shuffle": "randomize",
    "size": "shape",
    "worldsize": "workers",
}


def resembles(name: object, known: Iterable[str]) -> str | None:
    """Returns the name among ``known`` that has the meaning of ``name``, or else the closest one,
    if one is close."""
    known = list(known)
    synonym = _SYNONYMS.get(_plain(str(name)))
    if synonym in known:
        return synonym
    by_plain = {_plain(one): one for one in known}
    near = difflib.get_close_matches(_plain(str(name)), by_plain, n=1)
    return by_plain[near[0]] if near else None


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Returns the message that ``name`` is not in ``known``, with a suggestion."""
    names = list(known)
    return f"There is no {what} {name!r}.{_suggestion(name, names)} There are: {', '.join(names) or 'none'}."


def unknown_option(callable_name: str, option: str, known: Iterable[str]) -> str:
    """Returns the message that a callable has no such option, with a suggestion."""
    names = list(known)
    return f"{callable_name} has no option {option!r}.{_suggestion(option, names)} Its options are: {', '.join(names)}."


def _suggestion(name: object, names: list[str]) -> str:
    near = resembles(name, names)
    return "" if near is None else f" Did you mean {near!r}?"


def _with_example(message: str, example: str, argument: str | None = None) -> str:
    """Appends an example, unless the message has one, or the example lacks the argument."""
    if "For example: " in message or (argument is not None and f"{argument}=" not in example):
        return message
    return f"{message} For example: {example}"


def _apply(
    name: str,
    example: str,
    rules: Mapping[str, Rule],
    defaults: Mapping[str, object],
    signature: inspect.Signature,
    arguments: dict[str, object],
) -> None:
    """Applies rules to the arguments of ``name`` in place. Defaults are not checked."""
    for argument, value in arguments.items():
        rule = rules.get(argument)
        if rule is None or (argument in defaults and value is defaults[argument]):
            continue
        try:
            arguments[argument] = rule(argument, value)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            # Examples give required arguments by position.
            optional = argument if signature.parameters[argument].default is not inspect.Parameter.empty else None
            raise kind(_with_example(f"{name}: {error}", example, optional)) from None


def explained(
    example: str, elsewhere: Mapping[str, str] | None = None, /, **rules: Rule
) -> Callable[[Explained], Explained]:
    """Decorates a class or function to check its arguments and to explain wrong calls.

    Each argument is checked by its rule, and every parameter needs one. Errors about unknown or
    missing arguments list the options and show ``example``, a correct call. ``elsewhere`` says
    where options are passed that users expect here.
    """

    def decorate(what: Explained) -> Explained:
        is_class = isinstance(what, type)
        # A named tuple takes its arguments in `__new__`.
        method = "__new__" if is_class and issubclass(cast("type", what), tuple) else "__init__"
        original = cast("Callable[..., object]", getattr(what, method) if is_class else what)
        name = what.__name__ if is_class else what.__qualname__.replace(".__init__", "")
        signature = inspect.signature(original)
        known = _known(signature)
        _check_rules(name, signature, rules)
        takes_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
        defaults = {one.name: one.default for one in signature.parameters.values() if one.default is not one.empty}

        @functools.wraps(original)
        def checked(*arguments: object, **options: object) -> object:
            for option in () if takes_any else options:
                if option not in known:
                    if elsewhere and option in elsewhere:
                        raise TypeError(f"{name} has no option {option!r}. {elsewhere[option]}")
                    raise TypeError(_with_example(unknown_option(name, option, known), example))
            try:
                bound = signature.bind(*arguments, **options)
            except TypeError as error:
                raise TypeError(f"{name}: {error}. For example: {example}") from None
            _apply(name, example, rules, defaults, signature, bound.arguments)
            return original(*bound.args, **bound.kwargs)

        setattr(checked, RULES, rules)
        made: Explained = what
        if is_class:
            setattr(made, method, checked)
        else:
            made = cast("Explained", checked)
        return made

    return decorate


def declares(**rules: Rule) -> Callable[[Explained], Explained]:
    """Declares the rules of a function that applies them itself, because calls must be cheap.

    Every parameter needs a rule.
    """

    def decorate(what: Explained) -> Explained:
        _check_rules(what.__qualname__, inspect.signature(what), rules)
        setattr(what, RULES, rules)
        return what

    return decorate


def _known(signature: inspect.Signature) -> list[str]:
    return [one for one in signature.parameters if one not in ("self", "cls", "_cls")]


def _check_rules(name: str, signature: inspect.Signature, rules: Mapping[str, Rule]) -> None:
    kinds = inspect.Parameter
    named = [one for one in _known(signature) if signature.parameters[one].kind is not kinds.VAR_KEYWORD]
    if set(named) != set(rules):
        raise AssertionError(f"{name} has the parameters {named}, but rules for {list(rules)}.")
