"""Dataclasses and named tuples that are quick to define, for the modules that a short command loads.

The standard library compiles seven functions for a frozen dataclass with slots and imports `inspect` first: 0.7 ms for
each class, half of the run time of `ttmem ps`. For a named tuple it compiles each annotation and a function: 0.12 ms.
Here one function is compiled, when the first object is made, and the others are shared. The result is a dataclass for
`dataclasses.replace`, `fields` and `asdict` too, and type checkers see the originals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import NamedTuple as NamedTuple
else:
    from collections import _tuplegetter
    from operator import attrgetter
    from reprlib import recursive_repr

    class _Factory:
        """A default that is made anew for each object."""

        __slots__ = ("make",)

        def __init__(self, make):
            self.make = make

    def field(*, default_factory):
        return _Factory(default_factory)

    def dataclass(*, slots, frozen=False, repr=True, eq=True):
        """As the original with the same options; classes without slots are not supported."""
        assert slots

        def define(cls):
            names = tuple(cls.__annotations__)
            space = {key: value for key, value in vars(cls).items() if key not in _NOT_KEPT}
            defaults = {name: space.pop(name) for name in names if name in space}
            space |= {
                "__slots__": names,
                "__match_args__": names,
                "__qualname__": cls.__qualname__,
                "__dataclass_fields__": _StandardFields(names, defaults),
                "__init__": _define_init,
                "_field_defaults": defaults,
                "_frozen": frozen,
                "_values": attrgetter(*names),
            }
            if repr:
                space["__repr__"] = _repr
            if eq:
                space |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
            if frozen:
                space |= _FROZEN
            return type(cls)(cls.__name__, cls.__bases__, space)

        return define

    _NOT_KEPT = ("__dict__", "__weakref__")

    def _define_init(self, *values, **named):
        """Replaces itself by a function for the fields of the class."""
        cls = next(each for each in type(self).__mro__ if "_field_defaults" in vars(each))
        names, defaults = cls.__slots__, cls._field_defaults
        parameters, body, space = [], [], {}
        for name in names:
            space[f"set_{name}"] = vars(cls)[name].__set__
            value = name
            if name not in defaults:
                parameters.append(name)
            else:
                space[f"default_{name}"] = default = defaults[name]
                parameters.append(f"{name}=default_{name}")
                if isinstance(default, _Factory):
                    space[f"make_{name}"] = default.make
                    value = f"make_{name}() if {name} is default_{name} else {name}"
            frozen = f"set_{name}(self, {value})"  # four times as long as an assignment
            body.append(f"    {frozen if cls._frozen else f'self.{name} = {value}'}")
        exec("\n".join([f"def __init__(self, {', '.join(parameters)}):", *body]), space)
        init = space["__init__"]
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = init
        init(self, *values, **named)

    @recursive_repr()
    def _repr(self):
        shown = (f"{name}={getattr(self, name)!r}" for name in type(self).__match_args__)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _eq(self, other):
        if type(other) is not type(self):
            return NotImplemented
        values = type(self)._values
        return values(self) == values(other)

    def _hash(self):
        return hash(type(self)._values(self))

    def _set(self, name, value):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _delete(self, name):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self):
        return [getattr(self, name) for name in type(self).__match_args__]

    def _set_state(self, state):
        for name, value in zip(type(self).__match_args__, state, strict=True):
            object.__setattr__(self, name, value)

    _FROZEN = {
        "__setattr__": _set,
        "__delattr__": _delete,
        "__getstate__": _state,
        "__setstate__": _set_state,
    }

    class _StandardFields:
        """`__dataclass_fields__`, for those who have imported the standard library's module anyway."""

        def __init__(self, names, defaults):
            self._names = names
            self._defaults = defaults

        def __get__(self, instance, cls):
            import dataclasses

            made = []
            for name in self._names:
                default = self._defaults.get(name, dataclasses.MISSING)
                if isinstance(default, _Factory):
                    entry = dataclasses.field(default_factory=default.make)
                else:
                    entry = dataclasses.field(default=default)
                made.append((name, cls.__annotations__[name], entry))
            found = dataclasses.make_dataclass(cls.__name__, made).__dataclass_fields__
            cls.__dataclass_fields__ = found
            return found

    def replace(instance, /, **changes):
        names = type(instance).__match_args__
        return type(instance)(**{name: getattr(instance, name) for name in names} | changes)

    class _NamedTupleType(type):
        def __new__(meta, name, bases, space):
            cls = super().__new__(meta, name, bases, {"__slots__": (), **space})
            if names := tuple(cls.__annotations__):
                cls._fields = cls.__match_args__ = names
                cls._field_defaults = {name: space[name] for name in names if name in space}
                cls.__new__ = staticmethod(_define_new)
                for at, name in enumerate(names):
                    setattr(cls, name, _tuplegetter(at, None))
            return cls

    class NamedTuple(tuple, metaclass=_NamedTupleType):
        """As the original; classes that are generic too are not supported."""

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"Got unexpected field names: {list(changes)!r}")
            return made

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({', '.join(shown)})"

    def _define_new(cls, *values, **named):
        """Replaces itself by a function for the fields of the class."""
        base = next(each for each in cls.__mro__ if "_fields" in vars(each))
        names = ", ".join(base._fields)
        new = eval(f"lambda cls, {names}: new(cls, ({names},))", {"new": tuple.__new__})
        new.__defaults__ = tuple(base._field_defaults.values())
        new.__name__, new.__qualname__ = "__new__", f"{base.__qualname__}.__new__"
        base.__new__ = staticmethod(new)
        return new(cls, *values, **named)
