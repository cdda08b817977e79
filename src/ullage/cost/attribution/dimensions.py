"""What a bill can be divided by: a dimension, or two of them at once.

A pair is written `product,tenant`, and a group of it is called `search / acme`: the product's name, then the tenant's.
"""

from __future__ import annotations

from ullage.errors import InputError, check_name

DIMENSIONS = ("product", "tenant", "model", "class")
UNALLOCATED = "unallocated"
BETWEEN = " / "


def dimensions_of(by: str, *, field: str = "--by") -> tuple[str, ...]:
    """The one or two dimensions of this name; an unknown one is answered with the nearest.

    >>> dimensions_of("product"), dimensions_of("product, class")
    (('product',), ('product', 'class'))
    """
    names = tuple(each.strip() for each in by.split(","))
    for each in names:
        check_name(each, DIMENSIONS, field=field)
    if len(names) > 2 or len(set(names)) != len(names):
        raise InputError(
            field=field, value=by, problem="must be one dimension or two different ones", fix="Give product,tenant."
        )
    return names


def group_tags(by: str, name: str) -> dict[str, str]:
    """A group's name by dimension; a row that is nobody's, such as idle time, is so in every dimension.

    >>> group_tags("product,class", "search / chat"), group_tags("product,class", "idle")
    ({'product': 'search', 'class': 'chat'}, {'product': 'idle', 'class': 'idle'})
    """
    dimensions = dimensions_of(by)
    if len(dimensions) == 1:
        return {dimensions[0]: name}
    first, between, second = name.partition(BETWEEN)
    return {dimensions[0]: first, dimensions[1]: second if between else name}


def pair_name(first: str, second: str) -> str:
    return f"{first}{BETWEEN}{second}"
