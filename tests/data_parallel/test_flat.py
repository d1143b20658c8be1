import pytest
import torch
from torch.nn.functional import cross_entropy

from helpers.data_parallel import Flat
from helpers.models.lenet import LeNet


def test_the_flat_buffer_is_the_model():
    model, reference = LeNet(), LeNet()
    flat = Flat(model)
    images, labels = torch.randn(4, 1, 28, 28), torch.tensor([1, 2, 3, 4])
    cross_entropy(model(images), labels).backward()
    cross_entropy(reference(images), labels).backward()
    expected = torch.cat([p.grad.flatten() for p in reference.parameters()])
    assert torch.equal(flat.gradients, expected)
    torch.optim.SGD([flat.parameter], lr=0.1).step()
    torch.optim.SGD(reference.parameters(), lr=0.1).step()
    for mine, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    flat.check()


def _zero(model):
    model.zero_grad()


def _rebind(model):
    model.third.weight.grad = model.third.weight.grad / 2


def _load(model):
    model.third.weight.data = torch.zeros_like(model.third.weight)


@pytest.mark.parametrize(
    ("leave", "words"),
    [
        (_zero, "gradient of 'first.weight' in its buffer; got None"),
        (_rebind, "gradient of 'third.weight' in its buffer; got another tensor"),
        (_load, "values of 'third.weight' in its buffer; got another tensor"),
    ],
)
def test_a_model_that_has_left_its_buffers_is_refused_by_name(leave, words):
    model = LeNet()
    flat = Flat(model)
    model.zero_grad(set_to_none=False)
    flat.check()
    leave(model)
    with pytest.raises(ValueError, match=words):
        flat.check()


def test_frozen_parameters_stay_outside_and_dtypes_do_not_mix():
    model = LeNet()
    model.first.requires_grad_(False)
    flat = Flat(model)
    assert flat.names[0] == "second.weight"
    assert flat.values.numel() == sum(flat.sizes) == 61_706 - 156
    assert model.first.weight.grad is None
    with pytest.raises(ValueError, match="float64"):
        Flat(torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1).double()))
    with pytest.raises(ValueError, match="got None"):
        Flat(torch.nn.ReLU())
