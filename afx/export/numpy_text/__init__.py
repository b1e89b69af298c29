"""NumPy text: a traced function as one file of Python that needs NumPy alone.

Templates write what NumPy has a name for. What afx computes by a function of its own (`softmax`, a convolution, random
bits) is carried over: that function's source, without types, and what it calls.
"""
