"""The server: named documents to this machine, and nothing else to anyone."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time

import pytest

from icgd.errors import InvalidParameter
from icgd.pages.viewer import serve

FILES = {
    "/": ("text/html; charset=utf-8", b"<p>the page"),
    "/result.json": ("application/json", b"{}"),
}


@pytest.fixture(scope="module")
def server():
    with serve(FILES) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.close()
        thread.join()


def ask(server, path, method="GET", host=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True)
        if host != "":
            connection.putheader("Host", host or f"127.0.0.1:{server.port}")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_the_page_and_the_named_files_are_served(server):
    status, headers, body = ask(server, "/")
    assert (status, body) == (200, b"<p>the page")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert ask(server, "/result.json")[2] == b"{}"
    assert ask(server, "/?x=1")[0] == 200
    assert server.address == f"http://127.0.0.1:{server.port}/"


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/",
        "//etc/passwd",
        "/result.json/",
        "/trace.json",
        "/etc/passwd",
        "/.",
        "/result.json%00",
        "/RESULT.json",
        "*",
    ],
)
def test_nothing_else_is_found(server, path):
    status, _, body = ask(server, path)
    assert status == 404
    assert path.encode() not in body


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost@evil",
        "0.0.0.0",
        "127.0.0.1:x",
        "[::1]",
    ],
)
def test_other_hosts_are_refused(server, host):
    status, _, body = ask(server, "/", host=host)
    assert status in (400, 421)
    assert b"the page" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1"])
def test_this_machine_is_answered_by_either_name(server, host):
    assert ask(server, "/", host=host)[0] == 200


def test_two_hosts_are_none(server):
    assert ask(server, "/", host="127.0.0.1", Host="evil.example")[0] == 421


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"]
)
def test_only_get_and_head(server, method):
    status, _, body = ask(server, "/", method=method)
    assert status == 405
    assert b"the page" not in body


def test_head_has_the_size_and_no_body(server):
    status, headers, body = ask(server, "/", method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, "11", b"")


def test_it_listens_on_this_machine_only(server):
    assert server._http.server_address[0] == "127.0.0.1"


def test_a_taken_port_and_a_wrong_path_are_explained(server):
    with pytest.raises(InvalidParameter, match="`port` must be free"):
        serve(FILES, server.port)
    with pytest.raises(InvalidParameter, match="begin with /"):
        serve({"page": ("text/plain", b"")})


def test_it_can_be_closed_before_it_served():
    server = serve(FILES)
    server.close()


def test_a_client_that_goes_away_is_no_error(capfd):
    """It resets the connection in the middle of a large answer, which prints nothing; a bug would."""
    with serve({"/": ("text/plain", b"x" * 50_000_000)}) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        for _ in range(3):
            client = socket.create_connection(("127.0.0.1", running.port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(10)
            client.close()
        time.sleep(0.5)
        running.close()
        thread.join()
    assert capfd.readouterr().err == ""
