"""A policy server played over real HTTP, as far as publishing needs one."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PolicyServer:
    """A small real HTTP server that says what it serves and takes versions, as /v1/models and /v1/policies do."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.refusal = ""
        self.refusal_status = 422
        self.loads: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, {"data": [{"id": name} for name in server.served]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.loads.append(body)
                if server.refusal:
                    self._answer(server.refusal_status, {"error": {"message": server.refusal, "code": "refused"}})
                    return
                server.served = [*server.served, body["name"]][-4:]
                self._answer(200, {})

            def _answer(self, status: int, body: object) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
