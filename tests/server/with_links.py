"""A node whose connections to others go through the proxies of `tests.server.links`."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from tests.server.links import LINKS

#: A properties file is named after its node.
_node = Path(sys.argv[-1]).stem
_ports = json.loads(Path(os.environ[LINKS]).read_text())[_node]


class LinkedSocket(socket.socket):
    def connect_ex(self, address: Any) -> int:
        host, port = address[:2]
        return super().connect_ex((host, _ports.get(str(port), port)))


socket.socket = LinkedSocket  # type: ignore[misc]  # as the server makes its sockets

from kraftlog.cli import main  # noqa: E402 - after the sockets

if __name__ == "__main__":
    sys.exit(main())
