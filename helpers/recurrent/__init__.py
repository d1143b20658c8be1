"""Recurrent layers from their equations: forward, backward by hand, Jacobians, ablations.

`steps` holds the equations of one step, `layers` runs them over sequences with the parameters of
``torch.nn``, `gradients` is backpropagation through time as the derivation reads, `jacobians`
measures how a gradient shrinks or grows, `tasks` and `experiments` settle what a gate is
good for.
Torch is imported with the first of these modules, not with this package.
"""
