"""A server for one reader on this machine: a handful of named documents and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from icgd.errors import InvalidParameter

LOCAL = "127.0.0.1"
HOSTS = (LOCAL, "localhost")


class Server:
    """Serves `files`, path -> (content type, bytes), on this machine only.

    Nothing is looked up on disk: a path is a key of the mapping or there is no such document. The
    Host header must name this machine, so that no page elsewhere can read along by a name of its own.
    """

    def __init__(self, files: Mapping[str, tuple[str, bytes]], port: int = 0) -> None:
        for path in files:
            if not path.startswith("/"):
                raise InvalidParameter("files", path, "have paths that begin with /")
        try:
            self._http = _QuietServer((LOCAL, port), _handler(dict(files)))
        except (OSError, OverflowError) as error:
            raise InvalidParameter(
                "port",
                port,
                "be free",
                remedy=f"The system says: {error}. Port 0 takes any free one.",
            ) from error
        self._http.daemon_threads = True
        self._serving = False

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._http.server_address[1])

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{LOCAL}:{self.port}/"

    def serve_forever(self) -> None:
        """Answer until `close` is called from another thread, or an interrupt."""
        self._serving = True
        try:
            self._http.serve_forever(poll_interval=0.1)
        finally:
            self._serving = False

    def close(self) -> None:
        """Stop answering and listening."""
        if self._serving:
            self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def serve(files: Mapping[str, tuple[str, bytes]], port: int = 0) -> Server:
    """A server bound to its port, not yet answering.

    >>> with serve({"/": ("text/html; charset=utf-8", b"<p>page")}) as server:
    ...     server.address.startswith("http://127.0.0.1:")
    True
    """
    return Server(files, port)


class _QuietServer(ThreadingHTTPServer):
    """Browsers close connections whenever they like: that is no error of this program."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the trace of everything except a client that went away."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def _handler(files: dict[str, tuple[str, bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "icgd"
        sys_version = ""
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            if not _is_local(self.headers.get_all("Host") or []):
                self._refuse(421, "This server answers to 127.0.0.1 and localhost only.")
                return
            file = files.get(self.path.split("?", 1)[0])
            if file is None:
                self._refuse(404, "There is no such document.")
                return
            self._send(200, file[0], file[1], body=body)

        def _refuse(self, status: int, reason: str) -> None:
            self.close_connection = True
            self._send(status, "text/plain; charset=utf-8", reason.encode() + b"\n", body=True)

        def _send(self, status: int, kind: str, content: bytes, *, body: bool) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if body and self.command != "HEAD":
                self.wfile.write(content)

        def send_error(
            self, code: int, message: str | None = None, explain: str | None = None
        ) -> None:
            # The library's page repeats the request; ours says only that it was refused.
            status = 405 if code == 501 else code
            self.close_connection = True
            reason = "Only GET and HEAD are answered." if status == 405 else "Refused."
            self._send(status, "text/plain; charset=utf-8", reason.encode() + b"\n", body=True)

        def log_message(self, format: str, *args: Any) -> None:
            """One reader, one page: nothing to log."""

    return Handler


def _is_local(hosts: list[str]) -> bool:
    """Exactly one Host header, naming this machine, with or without a port."""
    if len(hosts) != 1:
        return False
    name, _, port = hosts[0].strip().partition(":")
    return name.lower() in HOSTS and (port == "" or port.isdigit())
