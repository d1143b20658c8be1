"""A model that is split over ranks: by optimizer, gradient, parameter, matrix, sequence, expert.

Arithmetic and messages are apart; what sends is handed its communicator, and nothing is global.

- ``zero``: bytes of ZeRO's stages; ``unit``, ``fsdp``: gather, use, free, reduce-scatter
- ``slices``, ``conjugate``, ``tensor_parallel``: matrices by columns and rows, f and g between
- ``vocabulary``: embedding and loss without all scores anywhere
- ``running_softmax``, ``ring_attention``: a sequence on many ranks
- ``routing``, ``experts``: tokens that travel to their experts
- ``randomness``: dropout that agrees where it must
- ``mesh``, ``hybrid``: data × pipeline × tensor at once; ``checkpoint``: for any number of ranks
- ``planner``: seconds and bytes of a layout; ``device``: a rank of a stated speed
- ``messages``, ``arrays``, ``background``: what all of them send by; ``patient``: how they wait
- ``counts``: messages, bytes and operations by formula; ``ways``: the same, counted and timed
- ``runs``: what notebook 13 asks of its ranks
"""
