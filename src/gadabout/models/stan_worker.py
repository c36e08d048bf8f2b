"""A process that evaluates a module compiled by PyStan, which crashes outside of the main thread; it needs no JAX.

It is run by its path. It reads pickled calls (method, arguments) from stdin, and writes pickled (succeeded, value).
"""

# pyright: reportMissingImports=false

import os
import pickle
import sys


def serve(name: str) -> None:
    """Answers calls until stdin ends; the output that Stan prints goes to stderr."""
    from httpstan.models import import_services_extension_module

    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    module, data = import_services_extension_module(name), None
    while True:
        try:
            method, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            if method == "data":
                (data,), value = arguments, None
            elif method == "density":
                row = (data, *arguments, True)
                value = module.log_prob(*row), module.log_prob_grad(*row)
            else:
                value = getattr(module, method)(data, *arguments)
            reply = True, value
        except Exception as error:
            reply = False, str(error)
        pickle.dump(reply, replies)
        replies.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
