"""A node whose connections to other nodes go through the proxies of `tests.server.links`."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from tests.server.links import LINKS

#: The last argument is the properties file, which is named after the node.
_node = Path(sys.argv[-1]).stem
#: The port of a peer -> the port of the proxy to it.
_ports = json.loads(Path(os.environ[LINKS]).read_text())[_node]


class LinkedSocket(socket.socket):
    def connect_ex(self, address: Any) -> int:
        host, port = address[:2]
        return super().connect_ex((host, _ports.get(str(port), port)))


socket.socket = LinkedSocket  # type: ignore[misc]  # the server creates its sockets with it

from kraftlog.cli import main  # noqa: E402 - it has to import the changed socket

if __name__ == "__main__":
    sys.exit(main())
