"""A model that is split over ranks: by optimizer, gradient, parameter, matrix, sequence, expert.

Arithmetic and messages are apart; what sends is handed its communicator, and nothing is global.

- ``zero``: bytes of ZeRO's stages; ``unit``, ``fsdp``: gather, use, free, reduce-scatter
- ``arrays``, ``conjugate``, ``tensor_parallel``: matrices by columns and rows, f and g between, and
  a loss without all scores anywhere
- ``running_softmax``, ``ring_attention``: a sequence on many ranks
- ``experts``: tokens that travel to their experts
- ``mesh``, ``hybrid``: data × pipeline × tensor at once; a checkpoint for any number of ranks
- ``planner``: seconds and bytes of a layout; ``device``: a rank of a stated speed, and how it waits
- ``messages``: what all of them send by
- ``counts``: messages, bytes and operations by formula; ``ways``: the same, counted and timed
- ``runs``: what notebook 13 asks of its ranks
"""
