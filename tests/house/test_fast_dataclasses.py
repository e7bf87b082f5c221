"""`ttmem.fast_dataclasses` does what `dataclasses` and `typing.NamedTuple` do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import typing
from typing import Any

import pytest

from tests.own_process import ran
from ttmem import fast_dataclasses

BOTH = pytest.mark.parametrize("module", [dataclasses, fast_dataclasses], ids=["standard", "fast"])


def _point(module: Any) -> Any:
    class Point:
        """A place."""

        x: int
        y: int = 2
        names: dict[str, int] = module.field(default_factory=dict)

        @property
        def sum(self) -> int:
            return self.x + self.y

    return module.dataclass(frozen=True, slots=True)(Point)


@fast_dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """One that `pickle` can find."""

    number: int
    text: str = "none"


@BOTH
def test_fields_have_defaults_and_each_object_its_own_default_factory(module: Any) -> None:
    point = _point(module)

    assert (point(1).y, point(1, 5).y, point(x=1, y=7).y) == (2, 5, 7)
    assert point(1).names == {}
    assert point(1).names is not point(1).names
    assert point(1, names={"a": 1}).names == {"a": 1}


@BOTH
@pytest.mark.parametrize(("values", "named"), [((), {}), ((1, 2, {}, 4), {}), ((1,), {"z": 3})])
def test_wrong_arguments_are_a_type_error(
    module: Any, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    for _ in range(2):  # the first object of a class, and a later one
        with pytest.raises(TypeError):
            _point(module)(*values, **named)


@BOTH
def test_a_frozen_object_stays_as_it_is(module: Any) -> None:
    point = _point(module)(1)

    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises((AttributeError, TypeError)):
        point.other = 1
    assert point.x == 1


@BOTH
def test_objects_with_equal_values_are_equal_and_have_one_hash(module: Any) -> None:
    class One:
        x: int

    one: Any = module.dataclass(frozen=True, slots=True)(One)

    class Other:
        x: int

    other: Any = module.dataclass(frozen=True, slots=True)(Other)

    assert (one(1) == one(1), one(1) == one(2), one(1) == other(1)) == (True, False, False)
    assert len({one(1), one(1), one(2)}) == 2


@BOTH
def test_a_changeable_object_has_no_hash_and_without_eq_it_is_itself(module: Any) -> None:
    class Changeable:
        x: int

    changeable: Any = module.dataclass(slots=True)(Changeable)

    class Itself:
        x: int

    itself: Any = module.dataclass(slots=True, eq=False)(Itself)

    changed = changeable(1)
    changed.x = 2
    assert changed == changeable(2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(changed)
    assert itself(1) != itself(1)
    assert len({itself(1), itself(1)}) == 2


@BOTH
def test_repr_names_the_fields_unless_the_class_has_its_own(module: Any) -> None:
    class Own:
        x: int

        def __repr__(self) -> str:
            return f"<{self.x}>"

    own: Any = module.dataclass(frozen=True, slots=True, repr=False)(Own)

    class Circle:
        x: Any = None

    circle = module.dataclass(slots=True)(Circle)()
    circle.x = circle
    assert repr(_point(module)(1)).endswith("Point(x=1, y=2, names={})")
    assert repr(own(3)) == "<3>"
    assert repr(circle).endswith("Circle(x=...)")


@BOTH
def test_methods_properties_docstring_and_bases_stay(module: Any) -> None:
    class Base:
        __slots__ = ()
        x: int

        def twice(self) -> int:
            return 2 * self.x

    class Derived(Base):
        x: int

    derived: Any = module.dataclass(frozen=True, slots=True)(Derived)

    point = _point(module)
    assert (point(1).sum, point.__doc__, derived(4).twice()) == (3, "A place.", 8)
    assert not hasattr(derived(4), "__dict__")


@BOTH
def test_the_standard_functions_know_the_class(module: Any) -> None:
    point = _point(module)
    here = point(1)

    known: bool = dataclasses.is_dataclass(point)
    assert known
    assert [(field.name, field.type) for field in dataclasses.fields(here)] == [
        ("x", "int"),
        ("y", "int"),
        ("names", "dict[str, int]"),
    ]
    assert dataclasses.asdict(here) == {"x": 1, "y": 2, "names": {}}
    assert dataclasses.replace(here, y=5) == fast_dataclasses.replace(here, y=5) == point(1, 5)
    assert point.__match_args__ == ("x", "y", "names")


def test_objects_can_be_copied_and_pickled() -> None:
    kept = Kept(1, "one")

    assert copy.copy(kept) == copy.deepcopy(kept) == pickle.loads(pickle.dumps(kept)) == kept


NAMED_TUPLES = pytest.mark.parametrize(
    "module", [typing, fast_dataclasses], ids=["standard", "fast"]
)


def _place(module: Any) -> Any:
    base: Any = module.NamedTuple

    class Place(base):  # type: ignore[misc]
        """Where something is."""

        x: int
        y: int = 2

        @property
        def sum(self) -> int:
            return int(self.x + self.y)

    return Place


class KeptTuple(fast_dataclasses.NamedTuple):
    """One that `pickle` can find."""

    number: int
    text: str = "none"


@NAMED_TUPLES
def test_a_named_tuple_is_a_tuple_whose_places_have_names(module: Any) -> None:
    place = _place(module)

    first, later = place(1), place(x=3, y=4)

    assert (first, later) == ((1, 2), (3, 4))
    assert (first.x, first.y, first.sum, later.y) == (1, 2, 3, 4)
    assert repr(later) == "Place(x=3, y=4)"
    assert hash(later) == hash((3, 4))
    assert not hasattr(later, "__dict__")
    with pytest.raises(AttributeError):
        later.x = 1


@NAMED_TUPLES
def test_a_named_tuple_knows_its_fields(module: Any) -> None:
    place = _place(module)

    assert place._fields == place.__match_args__ == ("x", "y")
    assert place._field_defaults == {"y": 2}
    assert place.__doc__ == "Where something is."
    assert typing.get_type_hints(place) == {"x": int, "y": int}
    assert place(1)._asdict() == {"x": 1, "y": 2}
    assert place(1)._replace(y=5) == place._make([1, 5]) == (1, 5)
    assert type(place(1)._replace(y=5)) is place


@NAMED_TUPLES
def test_wrong_values_of_a_named_tuple_are_refused(module: Any) -> None:
    place = _place(module)

    for _ in range(2):  # the first object of a class, and a later one
        for values, named in (((), {}), ((1, 2, 3), {}), ((1,), {"z": 3})):
            with pytest.raises(TypeError):
                place(*values, **named)
        with pytest.raises(TypeError, match="Expected 2 arguments, got 1"):
            place._make([1])
        with pytest.raises((TypeError, ValueError), match="unexpected field names"):
            place(1)._replace(z=1)


@NAMED_TUPLES
def test_a_class_derived_from_a_named_tuple_makes_objects_of_its_own(module: Any) -> None:
    place = _place(module)

    class Named(place):  # type: ignore[misc, valid-type]
        __slots__ = ()

        def twice(self) -> int:
            return 2 * int(self.sum)

    assert Named(1).twice() == 6
    assert type(Named(1)) is Named
    assert type(place(1)) is place
    assert not hasattr(Named(1), "__dict__")


def test_named_tuples_can_be_copied_and_pickled() -> None:
    kept = KeptTuple(1, "one")

    assert copy.copy(kept) == copy.deepcopy(kept) == pickle.loads(pickle.dumps(kept)) == kept
    assert type(pickle.loads(pickle.dumps(kept))) is KeptTuple


ITS_CLASSES = """
import inspect, sys
from ttmem.commands import main
main(["ps", "--json", "--shm", sys.argv[1]])
print("dataclasses" in sys.modules, file=sys.stderr)
for name, module in sorted(sys.modules.items()):
    for cls in vars(module).values() if name.startswith("ttmem.") else ():
        if inspect.isclass(cls) and hasattr(cls, "_fields") and type(cls) is type:
            print(cls, file=sys.stderr)
"""


def test_a_snapshot_of_this_host_needs_no_class_that_takes_long_to_define() -> None:
    done = ran([sys.executable, "-c", ITS_CLASSES, "/nowhere"], check=True)

    assert done.stderr.splitlines()[-1] == "False"
