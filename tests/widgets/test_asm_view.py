"""AsmView: colours of code, innermost loops, its columns and text, and what it refuses."""

import pytest
from minimlc_widgets import TARGETS, AsmView, machine_code
from minimlc_widgets.assembly import VECTOR, assembly_tokens, innermost_loops, llvm_tokens

import minimlc as mlc
from minimlc.loops.te import te
from minimlc.loops.values.errors import CompileError
from tests.widgets.values import module, product


def marked(line: str) -> list[str]:
    """The vector registers that are pointed out."""
    parts = assembly_tokens(line)
    return [text for name, text in zip(parts[::2], parts[1::2], strict=True) if name == VECTOR]


@pytest.mark.parametrize(
    ("line", "vectors"),
    [
        ("    vfmadd231ps -12(%r11), %ymm0, %ymm13", ["%ymm0", "%ymm13"]),
        ("    vmovups %zmm31, (%rcx,%r10)", ["%zmm31"]),
        ("    vaddps %xmm1, %xmm2, %xmm3", ["%xmm1", "%xmm2", "%xmm3"]),
        ("    vfmadd132ss (%rbx), %xmm1, %xmm0", []),
        ("    vmovsd %xmm0, (%rax)", []),
        ("    fmla v2.4s, v4.4s, v3.s[0]", ["v2.4s", "v4.4s"]),
        ("    ldp q1, q2, [x14]", ["q1", "q2"]),
        ("    fmadd s1, s2, s3, s1", []),
        ("    tdpbf16ps %tmm2, %tmm1, %tmm0", ["%tmm2", "%tmm1", "%tmm0"]),
        ("    addq $16, %rbx", []),
        (".LBB0_3:", []),
        ("", []),
    ],
)
def test_vector_registers_are_pointed_out(line, vectors):
    assert marked(line) == vectors
    assert "".join(assembly_tokens(line)[1::2]) == line


@pytest.mark.parametrize(
    "line",
    [
        "  %v36 = load <8 x float>, ptr %v35, align 4",
        "  store <8 x float> splat (float 0x3FF0), ptr %v22, align 4",
        "define i32 @mlc.mm(ptr noalias readonly %p0) #0 {",
        "loop1:",
        "loop2:                       ; preds = %entry, %next3",
        "}",
        "",
    ],
)
def test_tokens_of_llvm_join_to_the_line(line):
    parts = llvm_tokens(line)
    assert "".join(parts[1::2]) == line
    assert ("<8 x float>" in line) == (VECTOR in parts[::2])


ROTATED = """\
mlc.f:
    xorl %eax, %eax
    jmp .LBB0_1
.LBB0_4:
    incq %rax
    cmpq $64, %rax
    je .LBB0_5
.LBB0_1:
    xorl %ecx, %ecx
    jmp .LBB0_2
.LBB0_3:
    vfmadd231ps (%rdi), %ymm0, %ymm1
    cmpq $8, %rcx
    je .LBB0_4
.LBB0_2:
    incq %rcx
    jmp .LBB0_3
.LBB0_5:
    retq
""".splitlines()


def test_innermost_loops_are_those_of_the_control_flow():
    (loop,) = innermost_loops(ROTATED)
    assert [ROTATED[n] for n in loop.lines] == ROTATED[10:17]
    assert loop.text == "5 instructions, 1 of them on vectors, 1 multiply-add"


def test_loops_of_one_block_and_none():
    lines = [
        "f:",
        "    mov x1, xzr",
        ".LBB0_1:",
        "    add x1, x1, #1",
        "    cbnz x1, .LBB0_1",
        "    ret",
    ]
    (loop,) = innermost_loops(lines)
    assert loop == ((2, 3, 4), "2 instructions")
    assert innermost_loops(["f:", "    retq"]) == ()
    assert innermost_loops([]) == ()


def test_two_loops_one_after_the_other():
    lines = [".LBB0_1:", "    jne .LBB0_1", ".LBB0_2:", "    jne .LBB0_2", "    retq", ""]
    assert [loop.lines for loop in innermost_loops(lines)] == [(0, 1), (2, 3)]


def test_the_columns_are_linked_by_lines_of_the_script():
    view = AsmView(product(16).reorder("i", "k", "j").vectorize("j"))
    script, llvm, assembly = view.columns
    text = view.script.split("\n")
    fused = [
        number
        for line, number in zip(assembly["lines"], assembly["numbers"], strict=True)
        if "vfmadd" in "".join(line[1::2])
    ]
    assert fused and all("A[vi, vk] * B[vk, vj]" in text[number - 1] for number in fused)
    assert set(fused) <= set(llvm["numbers"])
    assert script["numbers"] == list(range(1, len(text) + 1))
    for mark in view.marked:
        assert all(n < len(assembly["lines"]) for n in mark["lines"])


def test_the_text_is_that_of_the_named_machine():
    texts = {name: AsmView(product(16), target=name).text() for name in ("avx2", "avx512", "neon")}
    assert texts["avx2"].startswith("   1 @T.prim_func\n   2 def mm(")
    assert "mm for x86-64-v3, 256-bit vectors" in texts["avx2"]
    assert "mm for cortex-a76, 128-bit vectors" in texts["neon"] and "%" not in texts["neon"]
    assert "innermost loop: " in texts["avx512"]
    assert AsmView(product(16), target="avx2").text() == texts["avx2"]


def test_machine_code_is_the_view_s_assembly_as_text():
    view, code = AsmView(product(16), target="neon"), machine_code(product(16), target="neon")
    assert code.lines == tuple(line.text for line in view.listing.assembly)
    assert code.loops == tuple(tuple(code.lines[n] for n in loop.lines) for loop in view.loops)


def test_the_loop_that_does_most_of_something():
    body = machine_code(product(16)).loop("fma")
    assert body in machine_code(product(16)).loops and any("fma" in line for line in body)
    flat = mlc.parse("""@T.prim_func
def one(A: T.Buffer((1,), "float32")):
    A[0] = A[0] * T.float32(2)
""")
    with pytest.raises(CompileError, match="no loop"):
        machine_code(flat).loop("mul")


def test_code_for_tiles_is_shown_wherever():
    a = te.placeholder((64, 64), "bfloat16", name="A")
    b = te.placeholder((64, 64), "bfloat16", name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute(
        (64, 64),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="C",
    )
    sch = mlc.Schedule(mlc.IRModule.of({"mm": te.create_prim_func([a, b, c])}), check=False)
    view = AsmView(mlc.recipes.matmul(sch, target=TARGETS["amx"]), target="amx")
    text = view.script.split("\n")
    products = [line for line in view.listing.assembly if "tdpbf16ps" in line.text]
    assert products and all("amx_dot" in "".join(text[n.script - 1 :][:6]) for n in products)


def test_a_library_a_function_and_one_of_several():
    wanted = AsmView(product(8)).text()
    assert AsmView(mlc.build(product(8).mod, cache=False)).text() == wanted
    both = mlc.IRModule.of({"a": module()["main"], "mm": product(8).mod["mm"]})
    assert AsmView(both, "mm").text() == wanted
    assert AsmView(product(8), optimized=True).columns[1]["title"] == "LLVM, optimized"


def test_a_line_is_pinned_by_its_number_or_a_text():
    assert AsmView(product(8), pin=3).pinned == 3
    view = AsmView(product(8), pin="A[vi, vk] * B")
    assert "A[vi, vk] * B" in view.script.split("\n")[view.pinned - 1]


def test_long_listings_are_cut_and_say_so(monkeypatch):
    monkeypatch.setattr("minimlc_widgets.asm_view.MOST_LINES", 12)
    column = AsmView(product(8)).columns[2]
    assert len(column["lines"]) == len(column["numbers"]) == 12 and column["more"] > 0


def test_wrong_input_is_refused():
    for call, words in (
        (lambda: AsmView(3), "got int"),
        (lambda: AsmView(module(), "nain"), 'no function is called "nain"'),
        (lambda: AsmView(module(), target="avx"), "names a machine"),
        (lambda: AsmView(module(), target=mlc.Target("c")), "names a machine"),
        (lambda: AsmView(module(), target=mlc.Target("llvm")), "names a machine"),
        (lambda: AsmView(module(), pin=99), "the script has lines 1"),
        (lambda: AsmView(module(), pin="D["), "the script has no such line"),
    ):
        with pytest.raises(CompileError, match=words):
            call()
    with pytest.raises(CompileError) as caught:
        AsmView(module(), target="avx")
    assert "avx2" in str(caught.value)
