# Three aliases for ./run, which does the work.
.PHONY: build test gui
build: ; @./run build
test: ; @./run test
gui: ; @./run gui
