"""A program for Spark's cluster: `python -m … MASTER ADDRESS TABLE REPLAYED WRITTEN FOLDER`.

It replays the table into a topic, and that topic through the sink into another one. Spark
speculates, and its event log is in FOLDER.
"""

from __future__ import annotations

import os
import sys

from kraftlog.cli import main as kraftlog
from kraftlog.spark.session import spark_session
from tests.spark.cluster_program import SETTINGS

_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1",
    "spark.speculation.efficiency.enabled": "false",
}
_EVENT_LOG = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


def main(master: str, address: str, table: str, replayed: str, written: str, folder: str) -> None:
    properties = os.path.join(folder, "client.properties")
    with open(properties, "w", encoding="utf-8") as file:
        file.write("batch.size=1\n")
    settings = {
        **SETTINGS,
        **_SPECULATION,
        **_EVENT_LOG,
        "spark.eventLog.dir": os.path.join(folder, "events"),
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
    spark = spark_session("test", master=master, settings=settings)
    try:
        words = [table, "--to", replayed, "-b", address, "-c", properties]
        assert kraftlog(["pipeline", "replay", *words]) == 0
        query = (
            spark.readStream.format("kraftlog")
            .option("kafka.bootstrap.servers", address)
            .option("subscribe", replayed)
            .option("startingOffsets", "earliest")
            .load()
            .select("value", "partition")
            .writeStream.format("kraftlog")
            .option("kafka.bootstrap.servers", address)
            .option("topic", written)
            .option("batchHeader", "true")
            .option("kafka.batch.size", "1")
            .option("checkpointLocation", os.path.join(folder, "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
