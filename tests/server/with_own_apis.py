"""A node that advertises kraftlog's own APIs to all clients."""

from __future__ import annotations

import sys

from kraftlog.cli import main
from kraftlog.node.api_table import SERVED, ServedApi
from kraftlog.node.handlers import api_versions
from kraftlog.wire.apis import APIS, ApiKey

if __name__ == "__main__":
    for key in (ApiKey.DISCOVER_BROKERS, ApiKey.READ_OFFSET, ApiKey.REMOVE_PARTITIONS):
        api = APIS[key]
        SERVED.setdefault(key, ServedApi(key, api.module, api.first, api.last))
    api_versions.HIDDEN_FROM = 1 << 15
    sys.exit(main())
