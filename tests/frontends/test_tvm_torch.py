"""Programs as in a course's chapter on importing models: torch.fx, a builder and maps."""

import importlib.util
import operator

import numpy as np
import pytest

import minimlc.frontends.tvm as tvm
from minimlc.frontends.tvm import relax, te, topi

pytestmark = pytest.mark.requires("torch")
if importlib.util.find_spec("torch"):
    import torch
    import torch.nn.functional as F
    from torch import fx, nn


def map_param(param):
    return relax.const(param.data.cpu().numpy(), relax.DynTensorType(param.data.dim(), "float32"))


def fetch_attr(module, target):
    for atom in target.split("."):
        module = getattr(module, atom)
    return module


def from_fx(fx_mod, input_shapes, call_function_map, call_module_map):
    """A module of the graph of `fx_mod`: each node is mapped, in order."""
    shapes, node_map, inputs = iter(input_shapes), {}, []
    named_modules = dict(fx_mod.named_modules())
    bb = relax.BlockBuilder()
    with bb.function("main"):
        with bb.dataflow():
            for node in fx_mod.graph.nodes:
                if node.op == "placeholder":
                    shape = next(shapes)
                    kind = relax.DynTensorType(len(shape), "float32")
                    node_map[node] = relax.Var(node.target, shape, kind)
                    inputs.append(node_map[node])
                elif node.op == "get_attr":
                    node_map[node] = map_param(fetch_attr(fx_mod, node.target))
                elif node.op == "call_function":
                    node_map[node] = call_function_map[node.target](bb, node_map, node)
                elif node.op == "call_module":
                    module = named_modules[node.target]
                    node_map[node] = call_module_map[type(module)](bb, node_map, node, module)
                elif node.op == "output":
                    output = bb.emit_output(node_map[node.args[0]])
        bb.emit_func_output(output, inputs)
    return bb.get()


def te_matmul(A: te.Tensor, B: te.Tensor) -> te.Tensor:
    assert A.shape[1] == B.shape[0]
    n, m = A.shape[0], B.shape[1]
    k = te.reduce_axis((0, A.shape[1]), name="k")
    return te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul")


def te_relu(A: te.Tensor) -> te.Tensor:
    return te.compute(A.shape, lambda *i: te.max(A(*i), 0), name="relu")


def binary(function):
    return lambda bb, nodes, node: bb.emit_te(function, *(nodes[arg] for arg in node.args))


def map_nn_linear(bb, node_map, node, nn_mod):
    x = node_map[node.args[0]]
    y = bb.emit(relax.op.nn.dense(x, map_param(nn_mod.weight)))
    return y if nn_mod.bias is None else bb.emit(relax.op.add(y, map_param(nn_mod.bias)))


def map_nn_relu(bb, node_map, node, nn_mod):
    return bb.emit(relax.op.nn.relu(node_map[node.args[0]]))


def check(model, shapes, functions=None, modules=None):
    """The imported model gives what torch does; the module."""
    model = model.eval()
    functions = {torch.matmul: binary(te_matmul), torch.relu: binary(te_relu), **(functions or {})}
    modules = {nn.Linear: map_nn_linear, nn.ReLU: map_nn_relu, **(modules or {})}
    mod = from_fx(fx.symbolic_trace(model), shapes, functions, modules)
    inputs = [np.random.default_rng(0).standard_normal(shape).astype("float32") for shape in shapes]
    vm = relax.VirtualMachine(relax.vm.build(mod, target="llvm"), tvm.cpu())
    result = vm["main"](*map(tvm.nd.array, inputs))
    with torch.no_grad():
        expected = model(*map(torch.from_numpy, inputs)).numpy()
    tvm.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4)
    return mod


def test_a_sum():
    class MyModel(nn.Module):
        def forward(self, x, y):
            return x + y

    mod = check(MyModel(), [(2, 3), (2, 3)], {operator.add: binary(topi.add)})
    assert list(mod.functions) == ["add", "main"]


def test_product_and_relu():
    class MyModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 8))

        def forward(self, x):
            return torch.relu(torch.matmul(x, self.weight))

    mod = check(MyModel(), [(4, 16)])
    assert list(mod.functions) == ["te_matmul", "te_relu", "main"]


def test_linear_layers():
    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear0 = nn.Linear(24, 16, bias=True)
            self.relu = nn.ReLU()
            self.linear1 = nn.Linear(16, 10, bias=True)

        def forward(self, x):
            return self.linear1(self.relu(self.linear0(x)))

    mod = check(MLP(), [(1, 24)])
    assert isinstance(mod, tvm.IRModule)
    assert isinstance(mod["main"], relax.Function)


def test_a_sequence_with_softmax():
    modules = {
        nn.Softmax: lambda bb, nodes, node, m: bb.emit_te(
            topi.nn.softmax, nodes[node.args[0]], m.dim
        ),
    }
    model = nn.Sequential(
        nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4, bias=False), nn.Softmax(dim=1)
    )
    check(model, [(3, 8)], modules=modules)


def test_a_convolution_network():
    def conv2d(bb, nodes, node, m):
        x, w = nodes[node.args[0]], map_param(m.weight)
        y = bb.emit_te(topi.nn.conv2d, x, w, 1, 0, 1)
        bias = relax.const(m.bias.data.numpy().reshape(1, -1, 1, 1), "float32")
        return bb.emit_te(topi.add, y, bias)

    modules = {
        nn.Conv2d: conv2d,
        nn.MaxPool2d: lambda bb, nodes, node, m: bb.emit(
            relax.op.nn.max_pool2d(nodes[node.args[0]], pool_size=(2, 2), strides=(2, 2))
        ),
        nn.Flatten: lambda bb, nodes, node, m: bb.emit_te(topi.nn.flatten, nodes[node.args[0]]),
    }
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, (3, 3)), nn.ReLU(), nn.MaxPool2d((2, 2))),
        *(nn.Flatten(), nn.Linear(4 * 5 * 5, 10)),
    )
    check(model, [(2, 1, 12, 12)], modules=modules)


def test_functions_with_options():
    def scaled(bb, nodes, node):
        return bb.emit_te(
            lambda A: te.compute(A.shape, lambda i, j: A[i, j] * 2.0), nodes[node.args[0]]
        )

    class MyModel(nn.Module):
        def forward(self, x):
            return F.relu(torch.mul(x, 2.0))

    functions = {torch.mul: scaled, F.relu: binary(topi.nn.relu)}
    check(MyModel(), [(3, 5)], functions)


def test_torch_inside_a_registered_function():
    @tvm.register_func("env.torch_linear", override=True)
    def torch_linear(x, w, b, out):
        x, w, b, out = map(torch.from_dlpack, (x, w, b, out))
        torch.mm(x, w.T, out=out)
        torch.add(out, b, out=out)

    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s).astype("float32") for s in ((1, 6), (4, 6), (4,)))
    bb = relax.BlockBuilder()
    params = [
        relax.Var(n, relax.TensorStructInfo(v.shape, "float32"))
        for n, v in zip("xwb", (x, w, b), strict=True)
    ]
    with bb.function("main", params):
        out = relax.TensorStructInfo((1, 4), "float32")
        gv = bb.emit(relax.call_dps_packed("env.torch_linear", params, out))
        bb.emit_func_output(gv)
    vm = relax.VirtualMachine(relax.build(bb.get()), tvm.cpu())
    tvm.testing.assert_allclose(vm["main"](x, w, b).numpy(), x @ w.T + b, rtol=1e-5, atol=1e-5)
