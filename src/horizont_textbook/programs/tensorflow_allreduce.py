"""One of several TensorFlow processes that average their gradients: MultiWorkerMirroredStrategy.

``TF_CONFIG`` holds the addresses of all processes and the index of this one.
"""

import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster)
workers = strategy.num_replicas_in_sync

examples = np.load("../examples.npz")
own = slice(cluster.task_id, None, workers)  # every n-th example of each batch

with strategy.scope():  # a copy of each weight in every process; the copies stay equal
    mean = tf.VariableAggregation.MEAN
    weight = tf.Variable(tf.zeros((6, 3)), aggregation=mean)
    bias = tf.Variable(tf.zeros(3), aggregation=mean)


def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Run one step of gradient descent."""
    with tf.GradientTape() as tape:
        scores = x @ weight + bias
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
        loss = tf.reduce_mean(entropies)
    for variable, gradient in zip((weight, bias), tape.gradient(loss, (weight, bias)), strict=True):
        variable.assign_sub(0.5 * gradient)  # the mean over all processes is taken here
    return loss


@tf.function
def distributed_step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Run the same step in all processes."""
    return strategy.run(step, args=(x, labels))


batches = zip(examples["x"], examples["labels"], strict=True)
losses = [distributed_step(tf.constant(x[own]), tf.constant(y[own])).numpy() for x, y in batches]
np.savez("result.npz", losses=losses, weight=weight.numpy(), bias=bias.numpy())
