"""Any Python value as JSON: what an event of a workflow carries.

Invariants: the result is plain JSON (``json.dumps(..., allow_nan=False)`` takes it), nesting is bounded, and no
value raises. What no rule knows is *described* (``{"__class__": ..., "repr": ...}``), never left out.

This module knows no class of the framework: it goes by what a value can do (``to_dict``, dataclass, pydantic).
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import math
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Union

JSON = Union[None, bool, int, float, str, list["JSON"], dict[str, "JSON"]]
"""A JSON value."""

MAX_DEPTH = 48
"""Levels of nesting. Gateways refuse messages deeper than 64 levels, and a line travels inside an envelope."""

MAX_REPR = 2_000
"""Characters of a description. It is there for a reader's eye; a repr can be as large as the memory."""


def to_json(value: object) -> JSON:
    """Give ``value`` as JSON.

    =================================================  ==========================================================
    value                                              JSON
    =================================================  ==========================================================
    ``None``, ``bool``, ``int``, finite ``float``      as it is
    ``str``                                            as it is; a lone surrogate becomes U+FFFD
    enum                                               its value
    date, time, datetime                               ISO 8601 text
    timedelta                                          seconds
    UUID, Decimal, path                                text
    bytes                                              ``{"__class__": "bytes", "base64": ...}``
    has ``to_dict()`` (the framework's own classes)    what that gives, and the properties that it leaves out
    pydantic model, dataclass, named tuple, attrs,     its fields and ``"__class__": name``
    msgspec struct
    exception                                          ``{"__class__": name, "message": text}``
    mapping                                            object; keys become text
    list, tuple, set, any other sequence               array (sets sorted)
    a class                                            its dotted name
    anything else, a cycle, too deep a nesting         ``{"__class__": name, "repr": ...}``
    =================================================  ==========================================================
    """
    return _Encoder().encode(value, 0)


def class_name(value: object) -> str | None:
    """Name the class of a payload as ``data_class`` does: ``None``, ``AgentResponse``, ``list[Message,str]``."""
    if value is None:
        return None
    name = type(value).__name__
    if isinstance(value, list) and value:
        return f"{name}[{','.join(sorted({type(item).__name__ for item in value}))}]"
    return name


def type_name(value: object) -> str:
    """Name a type: ``module.Class`` for a class, as Python prints it for ``list[module.Class]`` and unions."""
    if isinstance(value, type) and not getattr(value, "__args__", None):
        return f"{value.__module__}.{value.__qualname__}"
    return clean_text(str(value))


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 and no strict JSON reader accepts, by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return str(text)


def exception_text(error: BaseException) -> str:
    """Give what an exception says, or nothing where it cannot say it."""
    try:
        return clean_text(str(error))
    except Exception:  # A str is foreign code.
        return ""


def describe(value: object) -> JSON:
    """Describe a value that has no JSON form."""
    try:
        text = repr(value)
    except Exception as error:  # A repr is foreign code.
        text = f"<no repr: {type(error).__name__}>"
    if len(text) > MAX_REPR:
        text = f"{text[:MAX_REPR]}… ({len(text)} characters)"
    return {"__class__": type(value).__name__, "repr": clean_text(text)}


class _Encoder:
    """One walk over one value. Holds the objects that it is inside of, to see cycles."""

    def __init__(self) -> None:
        self._inside: set[int] = set()

    def encode(self, value: object, depth: int) -> JSON:
        plain = _plain(value)
        if plain is not _UNKNOWN:
            return plain  # type: ignore[return-value]
        if depth >= MAX_DEPTH or id(value) in self._inside:
            return describe(value)
        self._inside.add(id(value))
        try:
            return self._compound(value, depth + 1)
        except Exception:  # Foreign code runs in here: properties, to_dict(), __iter__().
            return describe(value)
        finally:
            self._inside.discard(id(value))

    def _compound(self, value: object, depth: int) -> JSON:
        to_dict = getattr(value, "to_dict", None)
        if callable(to_dict):
            encoded = self._own_form(value, to_dict, depth)
            if encoded is not None:
                return encoded
        fields = _fields(value)
        if fields is not None:
            return {"__class__": type(value).__name__, **self._object(fields, depth)}
        if isinstance(value, Mapping):
            return self._object(value, depth)
        if isinstance(value, Set):
            return self._array(sorted(value, key=lambda item: (type(item).__name__, str(item))), depth)
        if isinstance(value, Sequence):
            return self._array(value, depth)
        return describe(value)

    def _own_form(self, value: object, to_dict: Callable[[], object], depth: int) -> JSON:
        try:
            own = to_dict()
        except Exception:  # For example a class whose to_dict() is for some of its instances only.
            return None
        if not isinstance(own, Mapping):
            return None
        encoded = self._object(own, depth)
        self._restore(value, encoded, depth)
        return encoded

    def _restore(self, value: object, encoded: dict[str, JSON], depth: int) -> None:
        """Put back what ``to_dict()`` left out of free properties because it is not JSON by itself."""
        for name, part in encoded.items():
            original = getattr(value, name, None)
            if name == "additional_properties" and isinstance(original, Mapping) and isinstance(part, dict):
                for key in original:
                    if _key(key) not in part:
                        part[_key(key)] = self.encode(original[key], depth + 1)
            elif isinstance(part, list) and isinstance(original, list) and len(part) == len(original):
                for item, encoded_item in zip(original, part):
                    if isinstance(encoded_item, dict) and hasattr(item, "to_dict"):
                        self._restore(item, encoded_item, depth + 1)
            elif isinstance(part, dict) and hasattr(original, "to_dict"):
                self._restore(original, part, depth + 1)

    def _object(self, fields: Mapping[Any, object], depth: int) -> dict[str, JSON]:
        return {_key(key): self.encode(fields[key], depth) for key in fields}

    def _array(self, items: Iterable[object], depth: int) -> list[JSON]:
        return [self.encode(item, depth) for item in items]


_UNKNOWN = object()


def _plain(value: object) -> object:
    """Give the JSON of a value without parts; ``_UNKNOWN`` for any other."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        inner = _plain(value.value)
        return value.name if inner is _UNKNOWN else inner
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else describe(value)
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    if isinstance(value, os.PathLike):
        return clean_text(os.fsdecode(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"__class__": type(value).__name__, "base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, type):
        return type_name(value)
    if isinstance(value, BaseException):
        return {"__class__": type(value).__name__, "message": exception_text(value)}
    return _UNKNOWN


def _fields(value: object) -> Mapping[str, object] | None:
    """Give the fields of a value whose class declares them."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dict(dump())
    names: Iterable[str] | None = None
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        names = value._fields
    elif hasattr(value, "__struct_fields__"):
        names = value.__struct_fields__
    elif hasattr(value, "__attrs_attrs__"):
        names = [attribute.name for attribute in value.__attrs_attrs__]
    if names is None:
        return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _key(key: object) -> str:
    if isinstance(key, str) and not isinstance(key, enum.Enum):
        return clean_text(key)
    plain = _plain(key)
    if plain is True or plain is False or plain is None:
        return {True: "true", False: "false", None: "null"}[plain]
    return plain if isinstance(plain, str) else clean_text(str(key))
