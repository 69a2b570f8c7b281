import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.controller.PartitionChangeBuilder.Election;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Changes partitions with Kafka's classes. Stdin is a list of questions in JSON, stdout the answers:
 * for each the record that Kafka's controller would write, in its frame, or null.
 */
public final class PartitionOracle {
    public static void main(String[] args) throws Exception {
        ArrayNode answers = Driver.JSON.createArrayNode();
        for (JsonNode question : Driver.JSON.readTree(System.in.readAllBytes())) {
            Optional<ApiMessageAndVersion> record = builder(question).build();
            if (record.isPresent()) {
                answers.add(ImageOracle.bytes(record.get()));
            } else {
                answers.addNull();
            }
        }
        System.out.println(Driver.JSON.writeValueAsString(answers));
    }

    private static PartitionChangeBuilder builder(JsonNode question) throws Exception {
        ByteBuffer raw = ByteBuffer.wrap(question.get("partition").binaryValue());
        PartitionRecord record = (PartitionRecord) MetadataRecordSerde.INSTANCE
            .read(new ByteBufferAccessor(raw), raw.remaining()).message();
        Set<Integer> alive = new HashSet<>(numbers(question.get("alive")));
        PartitionChangeBuilder builder = new PartitionChangeBuilder(
            new PartitionRegistration(record), record.topicId(), record.partitionId(),
            alive::contains, MetadataVersion.latestProduction(), question.get("min_isr").asInt(),
            question.get("elr").asBoolean());
        builder.setElection(Election.valueOf(question.get("election").asText()));
        builder.setDefaultDirProvider(broker -> new Uuid(2, broker));
        given(question, "isr", value -> builder.setTargetIsr(numbers(value)));
        given(question, "replicas", value -> builder.setTargetReplicas(numbers(value)));
        given(question, "adding", value -> builder.setTargetAdding(numbers(value)));
        given(question, "removing", value -> builder.setTargetRemoving(numbers(value)));
        given(question, "unclean", value -> builder.setUncleanShutdownReplicas(numbers(value)));
        given(question, "recovery", value ->
            builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of((byte) value.asInt())));
        return builder;
    }

    private static void given(JsonNode question, String name, Consumer<JsonNode> set) {
        if (question.hasNonNull(name)) {
            set.accept(question.get(name));
        }
    }

    private static List<Integer> numbers(JsonNode array) {
        List<Integer> numbers = new ArrayList<>();
        array.forEach(number -> numbers.add(number.asInt()));
        return numbers;
    }
}
