"""Symbolic functions as text that parses back."""

from minimlc.loops.ir.nodes import Buffer, Expr, SymbolicFunc
from minimlc.loops.ir.printer import TirPrinter, annotation, inside, type_text


def write_symbolic(printer: TirPrinter, item: SymbolicFunc, name: str, decorator: str) -> None:
    """The whole function, as `def name`: a buffer of symbolic shape is matched to a handle."""
    printer.line(decorator)
    names, passed = printer.names, [size for _, size in item.scalars]
    for symbol in (*item.sizes, *item.func.params):
        names.declare(symbol)
    handles = {p: names.free(f"var_{p.name}") for p in item.func.params if _is_symbolic(p)}
    params = [
        f"{handles[p]}: T.handle" if p in handles else f"{names[p]}: {annotation(printer, p)}"
        for p in item.func.params
    ]
    for place, size in item.scalars:
        params.insert(place, f"{names[size]}: T.{size.dtype}")
    printer.signature(name, params, "")
    with printer.indented():
        for size in item.sizes:
            if size not in passed:
                printer.line(f"{names[size]} = T.{size.dtype}()")
        for buffer, handle in handles.items():
            kind = type_text(printer, buffer)
            printer.line(f"{names[buffer]} = T.match_buffer({handle}, {kind})")
        inside(printer, item.func, item.attrs)


def _is_symbolic(buffer: Buffer) -> bool:
    return any(isinstance(size, Expr) for size in buffer.shape)
