"""What a change of a convolution layer saves: operations, parameters, activations (row D12)."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Layer:
    """A convolution: channels in and out, kernel side, stride, groups, side of the input."""

    inputs: int = 128
    outputs: int = 128
    kernel: int = 3
    stride: int = 1
    groups: int = 1
    side: int = 56

    def __post_init__(self):
        if min(self.inputs, self.outputs, self.kernel, self.stride, self.groups, self.side) < 1:
            raise ValueError(f"every size of a Layer is at least 1; got {self}")
        if self.inputs % self.groups or self.outputs % self.groups:
            raise ValueError(f"groups must divide the channels; got {self}")

    @property
    def side_out(self) -> int:
        """Side of the output, with padding kernel // 2."""
        return (self.side + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1

    @property
    def flops(self) -> int:
        """Operations for one image, a multiplication and an addition each."""
        return 2 * self.outputs * (self.inputs // self.groups) * self.kernel**2 * self.side_out**2

    @property
    def parameters(self) -> int:
        return self.outputs * (self.inputs // self.groups) * self.kernel**2

    @property
    def output(self) -> int:
        """Numbers in the output."""
        return self.outputs * self.side_out**2

    @property
    def bytes(self) -> int:
        """fp32 bytes that must move: input, parameters, output, each once."""
        return 4 * (self.inputs * self.side**2 + self.parameters + self.output)

    def build(self):
        """Return the layer as a torch module without gradients, and an input (1, C, S, S)."""
        import torch

        layer = torch.nn.Conv2d(
            *(self.inputs, self.outputs, self.kernel, self.stride, self.kernel // 2),
            groups=self.groups,
            bias=False,
        )
        return layer.requires_grad_(False), torch.rand(1, self.inputs, self.side, self.side)


def variants(base: Layer) -> dict[str, tuple[Layer, str, float]]:
    """The table's rows: name → (layer, the source's factor in words, that factor's value).

    The factor is of the computation, against ``base``.
    """
    g = 4
    return {
        "kernel 3 → 1": (replace(base, kernel=1), "k₂²/k₁²", 1 / base.kernel**2),
        "stride 2": (replace(base, stride=2), "1/s²", 1 / 4),
        f"{g} groups": (replace(base, groups=g), "1/g²", 1 / g**2),
        "depthwise": (replace(base, groups=base.inputs), "1/g²", 1 / base.inputs**2),
    }


def shuffle(x, groups: int):
    """Interleave the channels of ``groups`` groups: (B, C, H, W) → the same shape, no arithmetic.

    ShuffleNet (Zhang et al. 2018): between two grouped layers, so that groups mix.
    Raises ValueError unless ``groups`` divides the channels.
    """
    b, c, h, w = x.shape
    if c % groups:
        raise ValueError(f"groups must divide the channels; got {groups} groups, {c} channels")
    return x.reshape(b, groups, c // groups, h, w).transpose(1, 2).reshape(b, c, h, w)
