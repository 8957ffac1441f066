"""Scripts in colours: each line's tokens join to the line, and the names of T, R, I stand out."""

import pytest
from minimlc_widgets.lexer import script_tokens, tokens


def pairs(line: str) -> list[tuple[str, str]]:
    parts = tokens(line)
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "    ",
        "for i, j in T.grid(128, 64):",
        '        with T.block("C<b>&amp;"):',
        "\tweird ¤ » ` $ ? \\",
        'x = R.const("…", (2, 3), "float32")  # été',
        '@T.prim_func(name="a\'b")',
        '"unterminated',
    ],
)
def test_the_texts_join_to_the_line(line):
    assert "".join(text for _, text in pairs(line)) == line


def test_names_of_the_ir():
    assert pairs("for i in T.grid(8, 8):")[0] == ("k", "for")
    assert ("nb", "grid") in pairs("for i in T.grid(8, 8):")
    assert ("nn", "T.") in pairs("for i in T.grid(8, 8):")
    assert ("nb", "axis.remap") in pairs('vi = T.axis.remap("S", [i])')
    assert ("kt", "float32") in pairs("T.float32(0)")
    assert ("kt", "Tensor") in pairs('x: R.Tensor((1, 2), "float32")')
    assert ("nd", "@I.ir_module") in pairs("@I.ir_module")
    assert ("nf", "main") in pairs("    def main(A: T.Buffer((8,), 'float32')):")
    assert ("m", "128") in pairs("x = 128")


def test_a_string_of_several_lines_is_one():
    script = 'def f(x):\n    """First.\n\n    if it is:\n    """\n    return x  # done'
    lines = script_tokens(script)
    assert "\n".join("".join(line[1::2]) for line in lines) == script
    assert lines[2] == () and lines[3] == ("s", "    if it is:")
    assert lines[4][-2:] == ("s", '    """') and ("k", "return") in pairs("    return x")
    assert lines[5] == tokens("    return x  # done")


def test_a_name_that_only_looks_like_one_is_plain():
    assert all(name != "nn" for name, _ in pairs("ATT.grid(8)"))
