"""The recorder of ONNX graphs, which are no framework of the study: they are not trained."""
