"""Gradients in fewer bytes: the arithmetic, apart from the messages (``schemes.compressed``).

- ``quantise``: Q_s(v) as its definition reads, its variance and the bound
- ``packing``: the same as bits, in compiled C
- ``compressors``: what a scheme is handed: quantised, half, top-k or sign
"""
