import numpy as np
import torch
from torch import nn

from helpers.data_parallel.tasks.interruptible import Run


class Noted(nn.Linear):
    """A linear layer that notes the first feature of what it is given."""

    def __init__(self):
        super().__init__(2, 2)
        with torch.no_grad():
            self.weight.copy_(torch.eye(2))
            self.bias.zero_()
        self.given = []

    def forward(self, x):
        self.given += x[:, 0].int().tolist()
        return super().forward(x)


def run(part=(0, 1), **settings):
    inputs = np.stack([np.arange(14), np.ones(14)], axis=1).astype(np.float32)
    return Run(Noted(), inputs, np.arange(14) % 2, part, batch=3, **settings)


def test_an_epoch_has_each_sample_once_on_one_of_the_ranks_and_then_another_order():
    ranks = [run((rank, 2)) for rank in range(2)]
    for rank in ranks:
        places = []
        for _ in range(5):
            rank.step()
            places.append((rank.epoch, rank.done))
        assert places == [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    first = [rank.net.given[:6] for rank in ranks]
    assert len({sample for given in first for sample in given}) == 12
    assert first != [rank.net.given[6:12] for rank in ranks]


def test_the_gradient_is_handed_to_sync_and_the_fingerprint_is_of_the_parameters():
    synced = []
    one, other = run(sync=synced.append), run()
    assert one.fingerprint() == other.fingerprint()
    assert len(one.fingerprint()) == 8
    one.step()
    assert synced == [one.net]
    assert one.fingerprint() != other.fingerprint()
    other.step()
    assert one.fingerprint() == other.fingerprint()
    still = run(sync=lambda net: [p.grad.zero_() for p in net.parameters()])
    still.step()
    assert still.fingerprint() == run().fingerprint()
