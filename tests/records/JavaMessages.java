// Prints java_messages.txt: messages of the formats v0 and v1 as Apache Kafka's own builder writes
// them, one "name hex" a line. test_old_formats.py has the same inputs.
//   java -cp "$KAFKA_HOME/libs/*" tests/records/JavaMessages.java > tests/records/java_messages.txt
// The package names are those of Kafka 4.3.

import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;

public class JavaMessages {
    static void print(String name, byte magic, CompressionType codec, TimestampType type) {
        MemoryRecordsBuilder messages = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic,
            Compression.of(codec).build(), type, 1000, 123456);
        messages.appendWithOffset(1000, 50, null, "first".getBytes());
        messages.appendWithOffset(1001, 40, "key".getBytes(), null);
        messages.appendWithOffset(1007, 60, "key".getBytes(), "value".repeat(20).getBytes());
        ByteBuffer buffer = messages.build().buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }

    public static void main(String[] args) {
        for (CompressionType codec : CompressionType.values()) {
            if (codec == CompressionType.ZSTD)
                continue;
            print("v0_" + codec.name, (byte) 0, codec, TimestampType.CREATE_TIME);
            print("v1_" + codec.name, (byte) 1, codec, TimestampType.CREATE_TIME);
            print("v1_append_time_" + codec.name, (byte) 1, codec, TimestampType.LOG_APPEND_TIME);
        }
    }
}
