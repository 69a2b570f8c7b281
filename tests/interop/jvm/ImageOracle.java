import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.ByteBuffer;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Replays metadata logs with Kafka's image. Stdin is a list of logs in JSON, each a list of records
 * in their frames; stdout has for each log the records of the snapshot that a broker would write.
 */
public final class ImageOracle {
    public static void main(String[] args) throws Exception {
        ArrayNode answers = Driver.JSON.createArrayNode();
        for (JsonNode log : Driver.JSON.readTree(System.in.readAllBytes())) {
            MetadataImage image = MetadataImage.EMPTY;
            for (JsonNode record : log) {
                MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
                ByteBuffer raw = ByteBuffer.wrap(record.binaryValue());
                delta.replay(MetadataRecordSerde.INSTANCE
                    .read(new ByteBufferAccessor(raw), raw.remaining()).message());
                image = delta.apply(MetadataProvenance.EMPTY);
            }
            RecordListWriter writer = new RecordListWriter();
            image.write(writer, new ImageWriterOptions.Builder(image).build());
            ArrayNode snapshot = answers.addArray();
            for (ApiMessageAndVersion record : writer.records()) {
                snapshot.add(bytes(record));
            }
        }
        System.out.println(Driver.JSON.writeValueAsString(answers));
    }

    static byte[] bytes(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = MetadataRecordSerde.INSTANCE.recordSize(record, cache);
        ByteBuffer buffer = ByteBuffer.allocate(size);
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }
}
