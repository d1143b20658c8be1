"""What becomes of SGD when the batch grows: rates, layer-wise optimizers, the gradient's noise.

- ``optimizers``: LARS and LAMB, warm-up, and momentum that survives a change of rate
- ``noise``: the gradient noise scale, and the critical batch it predicts
- ``search``: two tasks on real data, trained at any batch; the best of equally many rates
"""
