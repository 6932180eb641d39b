"""Chief, server or worker of TensorFlow's asynchronous ParameterServerStrategy.

``TF_CONFIG`` holds the role. Servers store the weights, workers compute the steps, and the chief
runs the training loop.
"""

import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster.task_type != "chief":
    tf.distribute.Server(  # with four threads, since its operations block each other
        cluster.cluster_spec(),
        job_name=cluster.task_type,
        task_index=cluster.task_id,
        protocol="grpc",
        config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4),
    ).join()  # until the process is terminated

strategy = tf.distribute.ParameterServerStrategy(cluster)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
workers = cluster.cluster_spec().num_tasks("worker")
with strategy.scope():
    weight, bias = tf.Variable(tf.zeros((6, 3))), tf.Variable(tf.zeros(3))


@tf.function
def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Run one step of gradient descent, on the next idle worker."""
    with tf.GradientTape() as tape:
        scores = x @ weight + bias
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
        loss = tf.reduce_mean(entropies)
    for variable, gradient in zip((weight, bias), tape.gradient(loss, (weight, bias)), strict=True):
        variable.assign_sub(0.5 * gradient)
    return loss


examples = np.load("../examples.npz")
pending = []
for x, labels in zip(examples["x"], examples["labels"], strict=True):
    for part in range(workers):
        own = slice(part, None, workers)
        args = (tf.constant(x[own]), tf.constant(labels[own]))
        pending.append(coordinator.schedule(step, args=args))
coordinator.join()
losses = coordinator.fetch(pending)
np.savez("result.npz", losses=losses, weight=weight.numpy(), bias=bias.numpy())
