import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Replays a segment of Kafka's metadata log, whose path is the argument. Stdout has a list in JSON:
 * for each offset the records of Kafka's image, or null before the first level of metadata.version. The records of a transaction take effect together.
 */
public final class LogImages {
    private MetadataImage image = MetadataImage.EMPTY;
    /** The image before the transaction in progress, if there is one. */
    private MetadataImage before = null;

    public static void main(String[] args) throws Exception {
        ArrayNode answers = Driver.JSON.createArrayNode();
        LogImages images = new LogImages();
        try (FileRecords log = FileRecords.open(new File(args[0]), false)) {
            for (RecordBatch batch : log.batches()) {
                for (Record record : batch) {
                    if (!batch.isControlBatch()) {
                        images.replay(record);
                    }
                    ObjectNode answer = answers.addObject().put("offset", record.offset());
                    images.write(answer);
                }
            }
        }
        System.out.println(Driver.JSON.writeValueAsString(answers));
    }

    private void replay(Record record) {
        ApiMessage message = MetadataRecordSerde.INSTANCE
            .read(new ByteBufferAccessor(record.value()), record.valueSize()).message();
        switch (MetadataRecordType.fromId(message.apiKey())) {
            case BEGIN_TRANSACTION_RECORD:
                before = image;
                break;
            case ABORT_TRANSACTION_RECORD:
                image = before;
                before = null;
                break;
            case END_TRANSACTION_RECORD:
                before = null;
                break;
            default:
                MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
                delta.replay(message);
                image = delta.apply(MetadataProvenance.EMPTY);
        }
    }

    private void write(ObjectNode answer) {
        MetadataImage visible = before == null ? image : before;
        if (visible.features().metadataVersion().isEmpty()) {
            answer.putNull("records");
            return;
        }
        RecordListWriter writer = new RecordListWriter();
        visible.write(writer, new ImageWriterOptions.Builder(visible).build());
        ArrayNode records = answer.putArray("records");
        for (ApiMessageAndVersion record : writer.records()) {
            records.add(ImageOracle.bytes(record));
        }
    }
}
