"""The fast product: values and derivatives of PyTorch's, under vmap, autocast and the compiler."""

import pytest
import torch

from embviz.models.linear import linear


@pytest.mark.parametrize("shape", [(7, 33), (3, 5, 33), (1, 33)])
@pytest.mark.parametrize("n_out", [1, 20, 65])
def test_the_fast_product_has_the_values_and_derivatives_of_torchs(shape, n_out):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, requires_grad=True)
    weight = torch.randn(n_out, 33, generator=generator, requires_grad=True)
    bias = torch.randn(n_out, generator=generator, requires_grad=True)
    found = []
    for product in (linear, torch.nn.functional.linear):
        result = product(x, weight, bias)
        first = torch.autograd.grad(result.sin().sum(), (x, weight, bias), create_graph=True)
        second = torch.autograd.grad(sum(part.square().sum() for part in first), (x, weight, bias))
        found.append([result, *first, *second])
    for fast, reference in zip(*found, strict=True):
        torch.testing.assert_close(fast, reference, rtol=1e-4, atol=2e-3)  # second derivatives reach 1,000


def test_the_fast_product_obeys_vmap_and_autocast():
    x, weight = torch.randn(3, 5, 8), torch.randn(3, 8, 4).mT  # rows that do not lie side by side
    torch.testing.assert_close(torch.vmap(linear)(x, weight), x @ weight.mT, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        torch.vmap(linear, (None, 0))(x[0], weight), x[0] @ weight.mT, rtol=1e-4, atol=1e-5
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x[0], weight[0]).dtype == torch.bfloat16
    assert linear(x[0].double(), weight[0].double()).dtype == torch.float64


def test_a_compiled_model_is_traced_with_a_product_that_the_compiler_knows():
    seen = []

    def record(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    x, w = torch.randn(3, 8), torch.randn(4, 8)
    found = torch.compile(linear, backend=record)(x, w)
    torch.testing.assert_close(found, x @ w.mT)
    assert any("linear" in name for name in seen)
    assert not any("mkldnn" in name or "_Product" in name for name in seen)
