"""Gradients in fewer bytes: the arithmetic, apart from the messages (``schemes.compressed``).

- ``quantise``: Q_s(v) as its definition reads, its variance and the bound
- ``packing``: the same as bits, in compiled C
- ``compressors``: what a scheme is handed: quantised, half, top-k, sign, or as they are
- ``low_rank``: PowerSGD's two thin matrices
- ``routes``: all codes to all ranks, or a ring that adds quantised parts
"""
