"""TF Serving's REST interface on the loopback, over the graph of a tiny model.

Written from TF Serving's description of the interface (rows in `instances`, rows in `predictions`;
a single output comes without its name), because its binary cannot be had everywhere.
"""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from tests.export.tiny_models import ask, graph


@contextlib.contextmanager
def rest_server(folder, name="tiny"):
    """Yields host:port."""
    graph(folder)  # as a server loads the model before it listens: clients wait a minute at most

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):  # noqa: N802  (the base class's name)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = self._answer(json.loads(body))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def _answer(self, request):
            if self.path != f"/v1/models/{name}:predict":
                return 404, {"error": f"Servable not found for request: {self.path}"}
            rows = request["instances"]
            found = ask(folder, **{key: [row[key] for row in rows] for key in rows[0]})
            outputs = {key: _plain(values) for key, values in found.items()}
            if len(outputs) == 1:
                return 200, {"predictions": next(iter(outputs.values()))}
            keys, columns = outputs.keys(), zip(*outputs.values(), strict=True)
            return 200, {"predictions": [dict(zip(keys, row, strict=True)) for row in columns]}

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _plain(values):
    return (
        np.char.decode(values.astype("S")).tolist() if values.dtype == object else values.tolist()
    )
