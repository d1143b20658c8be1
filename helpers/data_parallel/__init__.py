"""Stochastic gradient descent on several ranks: in step, with a server, and out of step.

- ``lenet``: the network, and its gradients in one flat buffer
- ``synchronous``: all replicas in step, without a server (four allreduces, buckets, overlap)
- ``server``: all replicas in step, a server averages
- ``asynchronous``: a parameter server with the hello / ready handshake
- ``time_model``: when does a second replica pay?
- ``history``: what a training run leaves behind

The modules import torch and mpi4py; this package alone does not.
"""
