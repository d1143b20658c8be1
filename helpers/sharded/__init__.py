"""A model that is split over ranks: by optimizer, gradient, parameter, matrix, sequence, expert.

Arithmetic and messages are apart; what sends is handed its communicator, and nothing is global.

- ``zero``: bytes of ZeRO's stages; ``unit``, ``fsdp``: gather, use, free, reduce-scatter
- ``slices``, ``conjugate``, ``tensor_parallel``: matrices by columns and rows, f and g between
- ``vocabulary``: embedding and loss without all scores anywhere
- ``running_softmax``, ``ring_attention``: a sequence on many ranks
- ``routing``, ``experts``: tokens that travel to their experts
- ``randomness``: dropout that agrees where it must
- ``messages``, ``arrays``, ``background``: what all of them send by
- ``counts``: messages and bytes of each, by formula
"""
