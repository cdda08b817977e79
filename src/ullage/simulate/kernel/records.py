"""Records: an annotated class becomes a numpy dtype and a compiled type that is no more than one pointer.

    class ReplicaRow:
        kv_tokens: int
        step: int

    replica = w.replicas[r]     # a pointer to the r-th record
    replica.kv_tokens += 1      # one load, one add, one store at a constant offset

numba has records and arrays of its own. An array there is seven words that every call copies, with a test for
negative indices at every access, and a tuple of the kernel's sixty arrays took minutes to compile. Here the whole
state is one argument, an index is known not to be negative, and the compiler is told that two fields with different
names never overlap.

Uncompiled, the same source runs on numpy's record arrays.
"""

# numba's extension interface is untyped.
# mypy: disable-error-code="misc, no-untyped-call, untyped-decorator, override, unused-ignore"

from __future__ import annotations

import functools
import operator
from typing import Annotated, Any, Protocol, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.extending import (
    NativeValue,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    overload,
    register_model,
    typeof_impl,
    unbox,
)

T = TypeVar("T")

# What a field may be besides `int` (64 bits) and `float`. All integers are 64 bits wide once they are read.
Int32 = Annotated[int, np.int32]

_WORD = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
_LLVM_TYPES = {np.int64: _WORD, np.int32: ir.IntType(32), np.float64: ir.DoubleType()}
_LINE_BYTES = 64


class Rows(Protocol[T]):
    """An array as the kernel sees it: numbers, or records that are changed in place."""

    def __getitem__(self, place: int, /) -> T: ...
    def __setitem__(self, place: int, value: T, /) -> None: ...


@functools.cache
def fields_of(record: type) -> dict[str, Any]:
    """Every field of a record and what it holds."""
    return get_type_hints(record, include_extras=True)


@functools.cache
def record_dtype(record: type) -> np.dtype[Any]:
    """The layout of a record: fields in order, aligned; a long one fills whole cache lines."""
    packed = np.dtype([(name, _width(hint)) for name, hint in fields_of(record).items()], align=True)
    if packed.itemsize <= _LINE_BYTES:
        return packed
    fields: dict[str, Any] = dict(packed.fields or {})
    return np.dtype(
        {
            "names": list(fields),
            "formats": [each[0] for each in fields.values()],
            "offsets": [each[1] for each in fields.values()],
            "itemsize": -(-packed.itemsize // _LINE_BYTES) * _LINE_BYTES,
        }
    )


def _width(hint: Any) -> Any:
    """The numpy type in which a field is kept: an array as its address, a record as part of the record."""
    if get_origin(hint) is Annotated:
        return hint.__metadata__[0]
    if hint is float:
        return np.float64
    return np.int64 if hint is int or get_origin(hint) is Rows else record_dtype(hint)


# ---- types -----------------------------------------------------------------------------------------------


class RecordType(types.Type):
    """A pointer to one record. The name stands for the class, in symbols and in numba's cache."""

    def __init__(self, record: type, *, version: str = "") -> None:
        self.record = record
        super().__init__(name=f"{record.__module__}.{record.__name__}{version}")


class RowsType(types.Type):
    """A pointer to the first of many numbers or records; `field` says whose."""

    def __init__(self, field: str, hint: Any) -> None:
        self.field, self.hint = field, hint
        super().__init__(name=f"rows.{field}")

    @property
    def item(self) -> Any:
        return _item_type(self.field, self.hint)


def _item_type(name: str, hint: Any) -> Any:
    """The compiled type of a field."""
    if get_origin(hint) is Rows:
        return RowsType(name, get_args(hint)[0])
    if hint is float:
        return types.float64
    return types.int64 if hint is int or get_origin(hint) is Annotated else RecordType(hint)


def hold(record: type, version: str) -> None:
    """Lets objects of this class be handed to compiled code: they carry the `address` of their table of fields."""
    held = RecordType(record, version=version)
    typeof_impl.register(record)(lambda value, context: held)


@register_model(RecordType)
@register_model(RowsType)
class _PointerModel(models.PrimitiveModel):
    def __init__(self, manager: Any, of: Any) -> None:
        super().__init__(manager, of, _BYTES)


@unbox(RecordType)
def _unbox_record(of: Any, value: Any, c: Any) -> Any:
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(address)


@infer_getattr
class _RecordFields(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, of: Any, name: str) -> Any:
        hint = fields_of(of.record).get(name)
        return None if hint is None else _item_type(name, hint)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, given: Any) -> Any:
        rows, place = args
        if isinstance(rows, RowsType) and isinstance(place, types.Integer):
            return signature(rows.item, rows, types.int64)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, given: Any) -> Any:
        rows, place, _ = args
        if isinstance(rows, RowsType) and isinstance(place, types.Integer):
            return signature(types.void, rows, types.int64, rows.item)
        return None


# ---- loads and stores ------------------------------------------------------------------------------------


def _mark(builder: Any, access: Any, name: str) -> Any:
    """Tells LLVM that this access overlaps no access of another name."""
    module = builder.module
    root = module.add_metadata(["ullage"])
    kind = module.add_metadata([name, root, ir.Constant(_WORD, 0)])
    access.set_metadata("tbaa", module.add_metadata([kind, kind, ir.Constant(_WORD, 0)]))
    return access


def _at(builder: Any, base: Any, offset: Any, hint: Any) -> Any:
    is_number = hint is int or hint is float or get_origin(hint) is Annotated
    kept = _LLVM_TYPES[_width(hint)] if is_number else _BYTES
    return builder.bitcast(builder.gep(base, [offset]), kept.as_pointer())


def _load(builder: Any, base: Any, offset: Any, hint: Any, name: str) -> Any:
    value = _mark(builder, builder.load(_at(builder, base, offset, hint)), name)
    return builder.sext(value, _WORD) if _width(hint) is np.int32 else value


def _store(builder: Any, value: Any, base: Any, offset: Any, hint: Any, name: str) -> None:
    if _width(hint) is np.int32:
        value = builder.trunc(value, _LLVM_TYPES[np.int32])
    _mark(builder, builder.store(value, _at(builder, base, offset, hint)), name)


def _field(of: Any, name: str) -> tuple[Any, Any, str]:
    fields: Any = record_dtype(of.record).fields
    hint = fields_of(of.record)[name]
    return ir.Constant(_WORD, fields[name][1]), hint, f"{of.record.__name__}.{name}"


@lower_getattr_generic(RecordType)
def _lower_getattr(context: Any, builder: Any, of: Any, value: Any, name: str) -> Any:
    offset, hint, path = _field(of, name)
    if isinstance(_width(hint), np.dtype):
        return builder.gep(value, [offset])
    return _load(builder, value, offset, hint, path)


@lower_setattr_generic(RecordType)
def _lower_setattr(context: Any, builder: Any, sig: Any, args: Any, name: str) -> None:
    offset, hint, path = _field(sig.args[0], name)
    _store(builder, args[1], args[0], offset, hint, path)


def _place(builder: Any, rows: Any, place: Any) -> Any:
    is_record = isinstance(rows.item, RecordType)
    size = record_dtype(rows.hint).itemsize if is_record else np.dtype(_width(rows.hint)).itemsize
    return builder.mul(place, ir.Constant(_WORD, size))


@lower_builtin(operator.getitem, RowsType, types.Integer)
def _lower_getitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    rows = sig.args[0]
    offset = _place(builder, rows, args[1])
    if isinstance(rows.item, RecordType):
        return builder.gep(args[0], [offset])
    return _load(builder, args[0], offset, rows.hint, rows.name)


@lower_builtin(operator.setitem, RowsType, types.Integer, types.Any)
def _lower_setitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    rows = sig.args[0]
    _store(builder, args[2], args[0], _place(builder, rows, args[1]), rows.hint, rows.name)
    return cgutils.get_null_value(ir.IntType(8).as_pointer())


def prefetch(rows: Any, place: int) -> None:
    """Asks for a row that will be read soon, so that it is in the processor's cache by then."""


@intrinsic
def _prefetch(context, rows, place):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = builder.gep(args[0], [_place(builder, sig.args[0], args[1])])
        number = ir.IntType(32)
        terms = ir.FunctionType(ir.VoidType(), [_BYTES, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [_BYTES], terms)
        # To write, to keep, data.
        builder.call(ask, [address, ir.Constant(number, 1), ir.Constant(number, 3), ir.Constant(number, 1)])
        return context.get_dummy_value()

    return types.void(rows, types.int64), generate


@overload(prefetch, jit_options={"forceinline": True})
def _prefetched(rows, place):  # type: ignore[no-untyped-def]
    def ask(rows, place):  # type: ignore[no-untyped-def]
        _prefetch(rows, place)  # type: ignore[call-arg]

    return ask
