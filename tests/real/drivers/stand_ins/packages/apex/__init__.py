"""apex's norms; see the modules beside this one for its fused softmax and products."""
