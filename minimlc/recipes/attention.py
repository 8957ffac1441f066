"""Attention: two products, and the work on each row of scores between them."""

from minimlc.loops.values.target import Target
from minimlc.recipes.elementwise import is_elementwise
from minimlc.recipes.matmul import fitting_plans, matmul
from minimlc.recipes.rowwise import is_along_rows, row_by_row
from minimlc.recipes.views import Draft, recipe, refusal


@recipe
def attention(sch: Draft, block: str | None, target: Target) -> Draft:
    """A fast softmax(Q Kᵀ) V, or any two products with reductions along rows between them.

    Takes the whole function: a product first, a product last. `block` names one of the products.
    Raises `ScheduleError` where there are none, or nothing between them.
    """
    first, *between = sch.blocks()
    while between and is_elementwise(sch, between[-1]):  # on what the last product gives
        between.pop()
    last = between.pop() if between else first
    kinds = [name for name in between if is_along_rows(sch, name)]
    if not kinds or block not in (None, first, last):
        what = f'block "{block}" is none of two products' if block else "there are no two products"
        raise refusal(f"attention: {what} with reductions along rows between them")
    for name in (first, last):
        fitting_plans(sch, name, target)
    sch = row_by_row(sch, between, target)
    for name in (first, last):
        sch = matmul(sch, name, target=target)
    return sch
