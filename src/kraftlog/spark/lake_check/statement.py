"""The statement about a comparison: what was compared with what, for somebody to sign.

Who has the same table and the same log gets the same statement, apart from the clock, and from the
log's ends if records were produced meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from kraftlog.client.text_table import table

if TYPE_CHECKING:
    from kraftlog.spark.lake_check.report import PartitionReport, Report
    from kraftlog.spark.lake_check.tables import LakeTable

FORMAT = 1


def statement(
    report: Report, cluster_id: str, topic_ids: dict[str, str], made_at: str
) -> dict[str, Any]:
    """The statement as data for JSON; `id` is the SHA-256 of all but itself and the clock."""
    data: dict[str, Any] = {
        "format": FORMAT,
        "cluster": cluster_id,
        "equal": not report.findings,
        "compared": "a sample, byte for byte" if report.sampled else "all, byte for byte",
        "sample": None if report.sampled is None else report.sampled.data(),
        "tables": [_table(report, each, topic_ids.get(each.topic, "")) for each in report.tables],
        "findings": [
            {
                **finding._asdict(),
                "files": [os.path.relpath(path, report.directory) for path in finding.files],
            }
            for finding in report.findings
        ],
    }
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return {**data, "id": hashlib.sha256(text.encode()).hexdigest(), "clock": made_at}


def _table(report: Report, lake: LakeTable, topic_id: str) -> dict[str, Any]:
    return {
        "topic": lake.topic,
        "topic_id": topic_id,
        "table": lake.table_id,
        "version": lake.version,
        "files": len(lake.files),
        "columns": ["offset", *lake.compared],
        "columns_not_compared": list(lake.not_compared),
        "partitions": [_partition(each) for each in report.partitions if each.topic == lake.topic],
    }


def _partition(part: PartitionReport) -> dict[str, Any]:
    return {
        "partition": part.partition,
        "archived": [part.start, part.end],
        "log": [part.log_start, part.log_end],
        "records": {"lake": part.lake, "log": part.log},
        "only_in_lake": {"retention": part.expired, "compaction": part.compacted},
        "dead_letters": part.dead_letters,
        "crc32c": {"lake": part.lake_checksum, "log": part.log_checksum},
        "sha256": {"lake": part.lake_digest, "log": part.log_digest},
    }


def statement_text(data: dict[str, Any]) -> str:
    """The statement for people, as lines."""
    lines = [
        f"statement {data['id']}",
        f"made at {data['clock']} on cluster {data['cluster']}; compared: {data['compared']}",
    ]
    rows = []
    for each in data["tables"]:
        lines.append(
            f"{each['topic']}: topic id {each['topic_id'] or '-'}, table {each['table']}, "
            f"version {each['version']}, {each['files']:,} files; "
            f"columns compared: {', '.join(each['columns'])}"
        )
        for part in each["partitions"]:
            start, end = part["archived"]
            log_start, log_end = part["log"]
            rows.append(
                (
                    *(each["topic"], part["partition"], f"{start}-{end - 1}"),
                    *(f"{log_start}-{log_end - 1}", part["records"]["lake"]),
                    *(part["sha256"]["lake"], part["sha256"]["lake"] == part["sha256"]["log"]),
                )
            )
    heads = ("TOPIC", "PARTITION", "ARCHIVED", "LOG", "RECORDS", "SHA-256", "AS IN THE LOG")
    if rows:
        lines.append(table(heads, [(*row[:-1], "yes" if row[-1] else "no") for row in rows]))
    return "\n".join(lines)
