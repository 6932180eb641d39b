"""Scheduler, server or worker of MXNet's parameter server, the KVStore.

``DMLC_ROLE`` holds the role. A scheduler and a server run inside the import, and exit there.
"""

import sys

import mxnet as mx
import numpy as np

kind = sys.argv[1]  # dist_sync or dist_async
store = mx.kv.create(kind)
examples = np.load("../examples.npz")
own = slice(store.rank, None, store.num_workers)

model = mx.gluon.nn.Dense(3, in_units=6)
model.initialize(mx.init.Zero())
trainer = mx.gluon.Trainer(
    model.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore=store, update_on_kvstore=True
)
entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

losses = []
for x, labels in zip(examples["x"], examples["labels"], strict=True):
    with mx.autograd.record():
        loss = entropy(model(mx.nd.array(x[own])), mx.nd.array(labels[own]))
    loss.backward()
    # dist_sync: the servers sum the gradients of a whole batch. dist_async: of one worker.
    trainer.step(len(x) if kind == "dist_sync" else len(x[own]))
    losses.append(loss.mean().asscalar())

weight, bias = model.weight.data().asnumpy(), model.bias.data().asnumpy()
np.savez("result.npz", losses=losses, weight=weight.T, bias=bias)
