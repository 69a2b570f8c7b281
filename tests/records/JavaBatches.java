// Prints java_batches.txt: batches as Apache Kafka's own builder writes them, one "name hex" a line.
//   java -cp "$KAFKA_HOME/libs/*" tests/records/JavaBatches.java > tests/records/java_batches.txt
// The package names are those of Kafka 4.3. test_builder.py holds the same inputs.

import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

public class JavaBatches {
    static final byte MAGIC = 2;
    static final int NONE = -1;

    static void print(String name, ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }

    static MemoryRecordsBuilder builder(CompressionType codec, TimestampType type, long baseOffset,
            long appendTime, long producerId, int epoch, int sequence, boolean transactional,
            boolean control, int leaderEpoch) {
        return MemoryRecords.builder(ByteBuffer.allocate(1 << 16), MAGIC, Compression.of(codec).build(),
            type, baseOffset, appendTime, producerId, (short) epoch, sequence, transactional, control,
            leaderEpoch);
    }

    static MemoryRecordsBuilder plain(CompressionType codec) {
        return builder(codec, TimestampType.CREATE_TIME, 0, NONE, NONE, NONE, NONE, false, false, NONE);
    }

    static void fill(MemoryRecordsBuilder batch) {
        for (int i = 0; i < 40; i++)
            batch.append(1000 + 7 * i, ("key" + i).getBytes(), ("value " + i).repeat(i).getBytes());
    }

    public static void main(String[] args) {
        MemoryRecordsBuilder batch = plain(CompressionType.NONE);
        batch.append(1000, (byte[]) null, null);
        batch.append(900, new byte[0], new byte[0]);
        batch.append(5000000000L, "k".getBytes(), "v".repeat(200).getBytes(), new Header[] {
            new RecordHeader("h", null), new RecordHeader("\u00fc", new byte[] {1}),
            new RecordHeader("", new byte[0])});
        print("nulls_and_headers", batch.build().buffer());

        batch = builder(CompressionType.NONE, TimestampType.CREATE_TIME, 1L << 40, NONE, 77, 3, 12, true,
            false, 9);
        batch.append(1, "a".getBytes(), "b".getBytes());
        batch.append(2, "c".getBytes(), "d".getBytes());
        print("transactional", batch.build().buffer());

        batch = builder(CompressionType.NONE, TimestampType.LOG_APPEND_TIME, 5, 123456, NONE, NONE, NONE,
            false, false, 2);
        batch.append(1, null, "b".getBytes());
        batch.append(9, null, "d".getBytes());
        print("append_time", batch.build().buffer());

        batch = plain(CompressionType.NONE);
        batch.append(-1, null, "b".getBytes());
        print("no_timestamp", batch.build().buffer());

        batch = builder(CompressionType.NONE, TimestampType.CREATE_TIME, 10, NONE, NONE, NONE, NONE, false,
            false, 4);
        batch.appendWithOffset(12, 50, "x".getBytes(), null);
        batch.appendWithOffset(400, 40, "y".getBytes(), "z".getBytes());
        batch.overrideLastOffset(500);
        print("gaps", batch.build().buffer());

        batch = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1 << 16), MAGIC,
            Compression.NONE, TimestampType.CREATE_TIME, 3, NONE, NONE, (short) NONE, NONE, false, false, 4,
            1 << 16, 100000);
        batch.appendWithOffset(3, 50, "x".getBytes(), null);
        print("delete_horizon", batch.build().buffer());

        ByteBuffer empty = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(empty, MAGIC, 77, (short) 3, 12, 100, 120, 6,
            TimestampType.CREATE_TIME, 4444, true, false);
        empty.flip();
        print("empty", empty);

        print("commit", MemoryRecords.withEndTransactionMarker(30, 5555, 8, 77, (short) 3,
            new EndTransactionMarker(ControlRecordType.COMMIT, 21)).buffer());
        print("abort", MemoryRecords.withEndTransactionMarker(30, 5555, 8, 77, (short) 3,
            new EndTransactionMarker(ControlRecordType.ABORT, 21)).buffer());

        for (CompressionType codec : CompressionType.values()) {
            batch = plain(codec);
            fill(batch);
            print("packed_" + codec.name, batch.build().buffer());
        }
    }
}
