import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

/** Record batches, built and read by Kafka's own classes. */
final class Batches {
    private Batches() { }

    /** Each item describes a batch (see Batch in driver.py); returns the bytes of the batches. */
    static ArrayNode build(JsonNode items) throws IOException {
        ArrayNode answers = Driver.JSON.createArrayNode();
        for (JsonNode item : items) {
            answers.add(Utils.toArray(buildOne(item).buffer()));
        }
        return answers;
    }

    private static MemoryRecords buildOne(JsonNode batch) throws IOException {
        boolean isControl = batch.get("control").asBoolean();
        boolean isAppendTime = batch.get("timestamp_type").asInt() == 1;
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                new ByteBufferOutputStream(4096),
                (byte) 2,
                Compression.of(batch.get("codec").asText()).build(),
                isAppendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
                batch.get("base_offset").asLong(),
                batch.get("append_time").asLong(),
                batch.get("producer_id").asLong(),
                (short) batch.get("producer_epoch").asInt(),
                batch.get("base_sequence").asInt(),
                batch.get("transactional").asBoolean(),
                isControl,
                batch.get("leader_epoch").asInt(),
                Integer.MAX_VALUE)) {
            long next = batch.get("base_offset").asLong();
            for (JsonNode item : batch.get("records")) {
                long offset = item.hasNonNull("offset") ? item.get("offset").asLong() : next;
                SimpleRecord record = record(item);
                if (isControl) {
                    builder.appendControlRecordWithOffset(offset, record);
                } else {
                    builder.appendWithOffset(offset, record);
                }
                next = offset + 1;
            }
            return builder.build();
        }
    }

    private static SimpleRecord record(JsonNode item) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : item.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        return new SimpleRecord(item.get("timestamp").asLong(), bytes(item.get("key")),
            bytes(item.get("value")), headers.toArray(new Header[0]));
    }

    private static byte[] bytes(JsonNode base64) throws IOException {
        return base64.isNull() ? null : base64.binaryValue();
    }

    /** Each item is the bytes of any number of batches, which are checked as a broker does. */
    static ArrayNode parse(JsonNode items) throws IOException {
        ArrayNode answers = Driver.JSON.createArrayNode();
        for (JsonNode item : items) {
            ObjectNode answer = answers.addObject();
            try {
                ByteBuffer bytes = ByteBuffer.wrap(item.binaryValue());
                ArrayNode batches = Driver.JSON.createArrayNode();
                int size = 0;
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
                    batches.add(describe(batch));
                    size += batch.sizeInBytes();
                }
                answer.set("batches", batches);
                answer.put("left", bytes.capacity() - size);
            } catch (RuntimeException e) {
                answer.put("error", Driver.describe(e));
            }
        }
        return answers;
    }

    private static ObjectNode describe(MutableRecordBatch batch) {
        batch.ensureValid();
        ObjectNode json = Driver.JSON.createObjectNode()
            .put("base_offset", batch.baseOffset())
            .put("last_offset", batch.lastOffset())
            .put("size", batch.sizeInBytes())
            .put("leader_epoch", batch.partitionLeaderEpoch())
            .put("magic", batch.magic())
            .put("crc", batch.checksum())
            .put("codec", batch.compressionType().name)
            .put("timestamp_type", batch.timestampType().id)
            .put("transactional", batch.isTransactional())
            .put("control", batch.isControlBatch())
            .put("max_timestamp", batch.maxTimestamp())
            .put("producer_id", batch.producerId())
            .put("producer_epoch", batch.producerEpoch())
            .put("base_sequence", batch.baseSequence())
            .put("last_sequence", batch.lastSequence())
            .put("count", batch.countOrNull());
        batch.deleteHorizonMs().ifPresent(horizon -> json.put("delete_horizon", horizon));
        ArrayNode records = json.putArray("records");
        for (Record record : batch) {
            record.ensureValid();
            records.add(describe(record));
        }
        return json;
    }

    private static ObjectNode describe(Record record) {
        ObjectNode json = Driver.JSON.createObjectNode()
            .put("offset", record.offset())
            .put("timestamp", record.timestamp())
            .put("sequence", record.sequence())
            .put("key", Utils.toNullableArray(record.key()))
            .put("value", Utils.toNullableArray(record.value()));
        ArrayNode headers = json.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return json;
    }
}
