import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Assigns partitions with Kafka's assignors. Stdin is a list of groups in JSON, stdout the
 * assignments: for each group an object by member and topic, or the text of the exception.
 *
 * Hash tables are filled in the order of the JSON, and have the sizes that they have in Kafka.
 */
public final class AssignorOracle {
    private static final Map<String, ConsumerGroupPartitionAssignor> ASSIGNORS =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor());

    public static void main(String[] args) throws Exception {
        ArrayNode answers = Driver.JSON.createArrayNode();
        for (JsonNode group : Driver.JSON.readTree(System.in.readAllBytes())) {
            try {
                answers.add(assign(group));
            } catch (PartitionAssignorException e) {
                answers.add(e.getMessage());
            }
        }
        System.out.println(Driver.JSON.writeValueAsString(answers));
    }

    private static ObjectNode assign(JsonNode group) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            String id = member.get("id").asText();
            Assignment owned = assignment(member.get("owned"));
            owned.partitions().forEach((topic, partitions) -> partitions.forEach(partition ->
                owners.computeIfAbsent(topic, __ -> new HashMap<>()).put(partition, id)));
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                optional(member.get("rack")), optional(member.get("instance")),
                topics(member.get("topics")), owned));
        }
        GroupSpecImpl spec = new GroupSpecImpl(Collections.unmodifiableMap(members),
            group.get("homogeneous").asBoolean()
                ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, owners);
        ObjectNode answer = Driver.JSON.createObjectNode();
        ASSIGNORS.get(group.get("assignor").asText()).assign(spec, new Topics(group.get("topics")))
            .members().forEach((id, assigned) -> {
                ObjectNode byTopic = answer.putObject(id);
                assigned.partitions().forEach((topic, partitions) -> {
                    ArrayNode array = byTopic.putArray(topic.toString());
                    partitions.stream().sorted().forEach(array::add);
                });
            });
        return answer;
    }

    /** As a coordinator reads it from its log. */
    private static Assignment assignment(JsonNode owned) {
        List<ConsumerGroupTargetAssignmentMemberValue.TopicPartition> topics = new ArrayList<>();
        owned.fields().forEachRemaining(topic -> {
            List<Integer> partitions = new ArrayList<>();
            topic.getValue().forEach(partition -> partitions.add(partition.asInt()));
            topics.add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                .setTopicId(Uuid.fromString(topic.getKey())).setPartitions(partitions));
        });
        return Assignment.fromRecord(
            new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(topics));
    }

    private static Set<Uuid> topics(JsonNode array) {
        Set<Uuid> topics = new LinkedHashSet<>();
        array.forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
        return topics;
    }

    private static Optional<String> optional(JsonNode text) {
        return text.isNull() ? Optional.empty() : Optional.of(text.asText());
    }

    private record Topics(JsonNode topics) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return topics.has(topic.toString()) ? topics.get(topic.toString()).size() : -1;
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            Set<String> racks = new LinkedHashSet<>();
            topics.get(topic.toString()).get(partition).forEach(rack -> racks.add(rack.asText()));
            return racks;
        }
    }
}
