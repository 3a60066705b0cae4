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


def resembles(name: object, known: Iterable[str]) -> str | None:
    """Returns the closest of the names ``known``, if one is close."""
    by_plain = {_plain(one): one for one in known}
    near = difflib.get_close_matches(_plain(str(name)), by_plain, n=1)
    return by_plain[near[0]] if near else None


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Returns the message that ``name`` is not in ``known``, with a suggestion."""
    names = list(known)
    near = resembles(name, names)
    question = "" if near is None else f" Did you mean {near!r}?"
    return f"There is no {what} {name!r}.{question} There are: {', '.join(names) or 'none'}."


def _apply(rules: Mapping[str, Rule], defaults: Mapping[str, object], arguments: dict[str, object]) -> None:
    """Applies rules to arguments in place. Defaults are not checked."""
    for name, value in arguments.items():
        rule = rules.get(name)
        if rule is not None and not (name in defaults and value is defaults[name]):
            arguments[name] = rule(name, value)


def explained(example: str, **rules: Rule) -> Callable[[Explained], Explained]:
    """Decorates a class or function to check its arguments and to explain wrong calls.

    Each argument is checked by its rule, and every parameter needs one. Errors about unknown or
    missing arguments list the options and show ``example``, a correct call.
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
                    raise TypeError(f"{unknown(f'option of {name}', option, known)} For example: {example}")
            try:
                bound = signature.bind(*arguments, **options)
            except TypeError as error:
                raise TypeError(f"{name}: {error}. For example: {example}") from None
            try:
                _apply(rules, defaults, bound.arguments)
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{name}: {error} For example: {example}") from None
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
