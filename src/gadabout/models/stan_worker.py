"""A process that evaluates what PyStan compiled, whose threads but the first crash; run by its path, it needs no JAX.

It reads pickled calls (method, arguments) of the compiled module from stdin, and writes (whether it worked, value).
"""

# pyright: reportMissingImports=false

import os
import pickle
import sys


def serve(name: str) -> None:
    """Answers until stdin ends; what Stan prints goes to stderr."""
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
