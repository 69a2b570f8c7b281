"""Where a pipeline's metrics go: a file that is replaced, or an address where HTTP serves them."""

from __future__ import annotations

import errno
import os
import re
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

from kraftlog.errors import ConfigError

if TYPE_CHECKING:
    from typing import Protocol

    class MetricsOutput(Protocol):
        #: The address, for people; empty for a file.
        url: str

        def publish(self, text: str) -> None:
            """Replace the metrics, in Prometheus's text format."""

        def close(self) -> None: ...


_ADDRESS = re.compile(r"(?P<host>[\w.-]*|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: How long a client may take for a request.
_TIMEOUT_S = 10


def metrics_output(text: str) -> MetricsOutput:
    """The output that the option --metrics names: HOST:PORT, or a file; raises ConfigError."""
    address = _ADDRESS.fullmatch(text)
    try:
        if address is None:
            return _File(text)
        return _Server(address["host"].strip("[]"), int(address["port"]))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"--metrics {text}: {reason}; expected a file that can be written, or HOST:PORT of "
            "this machine"
        ) from None


class _File:
    url = ""

    def __init__(self, path: str) -> None:
        self._path, self._temporary = path, f"{path}.new"
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with open(self._temporary, "w", encoding="utf-8"):
            os.remove(self._temporary)

    def publish(self, text: str) -> None:
        """Replace the file at once, so that nobody reads half of it."""
        with open(self._temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(self._temporary, self._path)

    def close(self) -> None:
        """The file stays, with the last metrics."""


class _Server:
    """Serves /metrics from memory in threads of its own, which wait for no pipeline."""

    def __init__(self, host: str, port: int) -> None:
        self._text = ""
        output = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT_S

            def do_GET(self) -> None:
                body = output._text.encode()
                is_known = self.path.partition("?")[0] == "/metrics"
                self.send_response(200 if is_known else 404)
                self.send_header("Content-Type", _CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body) if is_known else 0))
                self.end_headers()
                if is_known and self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 - the base class's name

            def log_message(self, *_: object) -> None:
                """Requests are not logged."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        self._server = Server((host, port), Handler)
        shown = f"[{host}]" if ":" in host else host or socket.gethostname()
        self.url = f"http://{shown}:{self._server.server_address[1]}/metrics"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def publish(self, text: str) -> None:
        self._text = text

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
