"""Advertises kraftlog's own APIs too: `python -m tests.server.with_own_apis start ...`."""

from __future__ import annotations

import sys

from kraftlog.cli import main
from kraftlog.node.api_table import SERVED, ServedApi
from kraftlog.wire.apis import APIS, ApiKey

if __name__ == "__main__":
    for key in (ApiKey.DISCOVER_BROKERS, ApiKey.READ_OFFSET, ApiKey.REMOVE_PARTITIONS):
        api = APIS[key]
        SERVED[key] = ServedApi(key, api.module, api.first, api.last)
    sys.exit(main())
