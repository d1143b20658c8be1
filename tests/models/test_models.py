"""The small transformer against PyTorch's own layer, and what it refuses; LeNet's accuracy."""

import numpy as np
import pytest
import torch
from torch import nn

from helpers.datasets.characters import ALPHABET, batch, encode
from helpers.models.lenet import LeNet, accuracy, reaches
from helpers.models.transformer import Block, Config, layer, loss, parameter_count, transformer

SMALL = Config(vocabulary=13, context=7, layers=2, heads=3, width=12)


def tokens(config, size=5, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(config.vocabulary, (size, config.context), generator=rng)


@pytest.mark.parametrize("config", [SMALL, Config(), Config(96, 32, 1, 8, 64, 0.1)])
def test_the_formula_counts_the_parameters(config):
    model = transformer(config)
    assert len(model) == config.pieces
    assert sum(p.numel() for p in model.parameters()) == parameter_count(config)
    assert model(tokens(config)).shape == (5, config.context, config.vocabulary)


def test_a_piece_made_alone_has_the_weights_of_the_whole():
    whole = transformer(SMALL, seed=3, dtype=torch.float64)
    before = torch.get_rng_state()
    for index, part in enumerate(whole):
        alone = layer(SMALL, index, 3, torch.float64)
        for (name, a), (_, b) in zip(
            part.named_parameters(), alone.named_parameters(), strict=True
        ):
            assert torch.equal(a, b), name
            assert torch.equal(a.float(), dict(layer(SMALL, index, 3).named_parameters())[name])
    assert torch.equal(before, torch.get_rng_state())
    first, second = whole[1].attention.query.weight, whole[2].attention.query.weight
    assert not torch.equal(first, second)
    assert not torch.equal(first, transformer(SMALL, seed=4).double()[1].attention.query.weight)


def _as_torch(block: Block, config: Config) -> nn.TransformerEncoderLayer:
    theirs = nn.TransformerEncoderLayer(
        *(config.width, config.heads, 4 * config.width, 0.0),
        activation="gelu",
        batch_first=True,
        norm_first=True,
        dtype=torch.float64,
    )
    ours = block.attention
    theirs.self_attn.in_proj_weight.data = torch.cat(
        [part.weight for part in (ours.query, ours.key, ours.value)]
    )
    theirs.self_attn.in_proj_bias.data = torch.cat(
        [part.bias for part in (ours.query, ours.key, ours.value)]
    )
    theirs.self_attn.out_proj.load_state_dict(ours.out.state_dict())
    theirs.norm1.load_state_dict(block.first_norm.state_dict())
    theirs.norm2.load_state_dict(block.second_norm.state_dict())
    theirs.linear1.load_state_dict(block.perceptron.up.state_dict())
    theirs.linear2.load_state_dict(block.perceptron.down.state_dict())
    return theirs


def test_a_block_is_torchs_own_layer_forward_and_backward():
    block = layer(SMALL, 1, dtype=torch.float64)
    with torch.no_grad():
        for p in block.parameters():  # biases and norms that differ everywhere
            p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())) / 5)
    theirs = _as_torch(block, SMALL)
    x = torch.randn(4, 7, 12, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64)
    out, wanted = block(x), theirs(y, src_mask=mask, is_causal=True)
    torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12)
    direction = torch.randn_like(out)
    (out * direction).sum().backward()
    (wanted * direction).sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-12, atol=1e-12)
    grads = [block.attention.query.weight.grad, block.attention.key.weight.grad]
    torch.testing.assert_close(
        torch.cat(grads), theirs.self_attn.in_proj_weight.grad[:24], rtol=1e-11, atol=1e-12
    )


def test_attention_looks_back_only():
    model = transformer(SMALL, dtype=torch.float64)
    first = tokens(SMALL)
    second = first.clone()
    second[:, 4] = (second[:, 4] + 1) % 13
    a, b = model(first), model(second)
    assert torch.equal(a[:, :4], b[:, :4])
    assert not torch.isclose(a[:, 4:], b[:, 4:]).all(2).any()


def test_the_loss_of_ignorance_is_the_logarithm_of_the_vocabulary():
    targets = tokens(SMALL)
    assert loss(torch.zeros(5, 7, 13), targets).item() == pytest.approx(2.5649494)
    assert loss(transformer(SMALL)(targets), targets).item() == pytest.approx(2.56, abs=0.1)


def test_dropout_is_of_training_only():
    config = Config(13, 7, 1, 3, 12, dropout=0.5)
    model, x = transformer(config), tokens(config)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="width=128 does not divide into heads=5"):
        Config(heads=5)
    with pytest.raises(ValueError, match="8 tokens in a row: the context is 7"):
        transformer(SMALL)(torch.zeros(1, 8, dtype=torch.int64))
    with pytest.raises(ValueError, match="index=4: the model has pieces 0 to 3"):
        layer(SMALL, 4)
    with pytest.raises(ValueError, match="6 tokens make no piece of context=6"):
        batch(encode("abcdef"), 1, 6)
    assert Config().vocabulary == len(ALPHABET)


@pytest.mark.parametrize("right", [0, 1, 149, 211, 212, 213, 249, 250])
def test_reaches_agrees_with_the_accuracy(right):
    model = LeNet()
    images = np.random.default_rng(0).random((250, 1, 28, 28), np.float32)
    with torch.no_grad():
        labels = model(torch.from_numpy(images)).argmax(1).numpy()
    labels[right:] = (labels[right:] + 1) % 10
    share = accuracy(model, images, labels)
    assert share == pytest.approx(right / 250)
    for target in (0.0, 0.004, 0.596, 0.85, 0.998, 1.0):
        assert reaches(model, images, labels, target) == (right / 250 >= target), target
