"""GrokFast against the recursion that its paper writes down."""

import pytest
import torch

from book.geometry.grokfast import amplify_slow_gradients


def weight_with(gradient: torch.Tensor) -> torch.Tensor:
    weight = torch.zeros_like(gradient, requires_grad=True)
    weight.grad = gradient.clone()
    return weight


def test_gradients_grow_by_their_average_as_the_recursion_says():
    gradients = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    memory, average = {}, None
    for gradient in gradients:
        average = gradient if average is None else 0.9 * average + 0.1 * gradient
        weight = weight_with(gradient)
        amplify_slow_gradients({"weight": weight}, memory, decay=0.9, gain=2.0)
        assert torch.allclose(weight.grad, gradient + 2 * average)


def test_a_gradient_that_never_changes_is_tripled_and_one_that_alternates_is_hardly_changed():
    memory, constant, alternating = {}, torch.ones(1), torch.ones(1)
    for _ in range(400):
        alternating = -alternating
        still, moving = weight_with(constant), weight_with(alternating)
        amplify_slow_gradients({"still": still, "moving": moving}, memory)
    assert still.grad.item() == pytest.approx(3.0)
    assert moving.grad.item() == pytest.approx(alternating.item(), abs=0.03)  # 2 (1 - .98) / (1 + .98) is .02


def test_a_parameter_without_a_gradient_is_left_out():
    memory = {}
    amplify_slow_gradients({"frozen": torch.zeros(2)}, memory)
    assert memory == {}


def test_a_memory_of_another_model_is_refused():
    memory = {}
    amplify_slow_gradients({"weight": weight_with(torch.ones(2))}, memory)
    with pytest.raises(ValueError, match="give each model another memory"):
        amplify_slow_gradients({"weight": weight_with(torch.ones(3))}, memory)
