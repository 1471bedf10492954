"""TF Serving's REST interface in this process, over the graph of a tiny model."""

import contextlib

from tests.serving import model_server
from tests.signatures.tiny_models import ask, graph


@contextlib.contextmanager
def rest_server(folder, name="tiny"):
    """Yields host:port."""
    # Traced before it listens, as a server loads the model: clients wait a minute at most.
    inputs = graph(folder).structured_input_signature[1]

    def find(asked, version, signature):
        if asked != name:
            raise model_server.Refusal("NOT_FOUND", f"Servable not found for request: {asked}")
        return model_server.Model(lambda given: ask(folder, **given), dict.fromkeys(inputs, object))

    with model_server.rest_server(find) as port:
        yield f"127.0.0.1:{port}"
