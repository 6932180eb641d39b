"""TensorFlow: Keras layers, tf.data, MultiWorkerMirroredStrategy, ParameterServerStrategy."""

import os

from horizont.frameworks.tensorflow.adapter import ADAPTER

# Both are read when TensorFlow and Keras are imported, so they must stand before the import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever the user's own keras.json prefers


__all__ = ["ADAPTER"]
