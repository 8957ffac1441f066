"""The rings: which files a small compiler of loops has, and which one of graphs has besides."""

LOOPS = {
    "": "arguments constants contents depth display dtypes errors kinds literals module "
    "names node parts printer run target verify",
    "codegen": "__init__ bounds dialect lower",
    "codegen/llvm": "__init__ emit expr kernel lines machine memory operators ops parallel shared "
    "stmt value",
    "schedule": "__init__ blocks calls finish fresh inline kinds loops memory nets primitive "
    "redirect reduction schedule shape trace tree",
    "script": "__init__ constructs definition folding module reader source syntax tir "
    "tir_buffer tir_expr tir_let tir_stmt",
    "tir": "__init__ elements execute expr functions intrinsics nodes operators printer te tensors "
    "traced tracing unwritten values walks",
    "tir/analysis": "__init__ access affine arith coverage dependence forms inside "
    "legality points polyhedra ranges reducers regions scopes simplify "
    "wellformed witness",
    "tir/math": "__init__ float_steps functions scalars",
}
"""Ring 1, by folder: it parses, prints, proves, interprets, schedules and compiles one function."""

GRAPHS = {
    "": "registry",
    "graph": "__init__ builder dimensions execute mutator nodes normal op operators printer run "
    "scope sized wellformed",
    "graph/ops": "__init__ broadcast checks create elementwise linear record reduction shape "
    "values",
    "passes": "__init__ effects fold_constants fuse_ops fuse_tir kinds legalize merge outline "
    "remove_unused",
    "runtime": "__init__ plan",
    "script": "graph graph_calls graph_types graph_value",
}
"""Ring 2, by folder: graphs of operators become functions of ring 1."""

SIZES = [13162, 4230]
"""Lines of code of the loops, and of the graphs without them; they only go down."""

ROOT = ("__init__.py", "composition.py")
"""The composition root: the files that name all parts."""


def listed(ring: dict[str, str]) -> list[str]:
    """The files of a ring, relative to the package."""
    return [
        f"{folder}/{name}.py".lstrip("/")
        for folder, names in ring.items()
        for name in names.split()
    ]


RINGS = [listed(LOOPS), listed(GRAPHS)]


def ring_of(file: str) -> int:
    """The ring of a file: 1, 2, or 3 for what is around."""
    return next((number for number, ring in enumerate(RINGS, 1) if file in ring), 3)
