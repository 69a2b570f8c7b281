import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The everyday work by Kafka's own clients. Each piece prints a line of JSON with its facts. */
public final class EverydayWork {
    private static final int COUNT = 40;
    private static final String RETENTION_MS = "3600000";
    private static final long TIME_MS = 1_700_000_000_000L;

    private interface Work {
        Map<String, ?> run() throws Exception;
    }

    private final String address;
    private final long limitMs;

    private EverydayWork(String address, long limitMs) {
        this.address = address;
        this.limitMs = limitMs;
    }

    public static void main(String[] args) throws Exception {
        EverydayWork work = new EverydayWork(args[0], 1000 * Long.parseLong(args[1]));
        Map<String, Work> pieces = new LinkedHashMap<>();
        pieces.put("cluster", work::cluster);
        pieces.put("topics", work::topics);
        pieces.put("configs", work::configs);
        pieces.put("codecs", work::codecs);
        pieces.put("idempotent", work::idempotent);
        pieces.put("assignment", work::assignment);
        pieces.put("times", work::times);
        pieces.put("deletion", work::deletion);
        pieces.put("rebalance", work::rebalance);
        pieces.put("resume", work::resume);
        pieces.put("groups", work::groups);
        for (Map.Entry<String, Work> piece : pieces.entrySet()) {
            Map<String, ?> facts;
            try {
                facts = piece.getValue().run();
            } catch (Exception e) {
                facts = Map.of("error", String.valueOf(e));
            }
            System.out.println(Driver.JSON.writeValueAsString(List.of(piece.getKey(), facts)));
        }
    }

    // What the pieces share --------------------------------------------------------------------

    private Properties settings(Object... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        for (int n = 0; n < pairs.length; n += 2) {
            settings.put(pairs[n], pairs[n + 1]);
        }
        return settings;
    }

    private Admin admin() {
        return Admin.create(settings());
    }

    private void create(String topic, int partitions) throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    private static List<String> values(String form) {
        return IntStream.range(0, COUNT).mapToObj(form::formatted).toList();
    }

    /** Writes the values to partition 0; returns their offsets once all are acknowledged. */
    private List<Long> produce(String topic, List<String> values, List<Long> times, Object... pairs) throws Exception {
        StringSerializer strings = new StringSerializer();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        Properties settings = settings(pairs);
        settings.putIfAbsent("enable.idempotence", false);
        settings.put("linger.ms", 20);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, strings, strings)) {
            for (int n = 0; n < values.size(); n++) {
                long time = times.isEmpty() ? TIME_MS + n : times.get(n);
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, 0, time, "k" + n, values.get(n));
                record.headers().add("n", String.valueOf(n).getBytes());
                sent.add(producer.send(record));
            }
        }
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> metadata : sent) {
            offsets.add(metadata.get().offset());
        }
        return offsets;
    }

    private KafkaConsumer<String, String> consumer(String group) {
        StringDeserializer strings = new StringDeserializer();
        Properties settings = settings("enable.auto.commit", false, "auto.offset.reset", "earliest",
            "heartbeat.interval.ms", 100, "fetch.max.wait.ms", 50);
        if (group != null) {
            settings.put("group.id", group);
        }
        return new KafkaConsumer<>(settings, strings, strings);
    }

    private KafkaConsumer<String, String> assigned(String topic, long offset) {
        TopicPartition partition = new TopicPartition(topic, 0);
        KafkaConsumer<String, String> consumer = consumer(null);
        consumer.assign(List.of(partition));
        consumer.seek(partition, offset);
        return consumer;
    }

    private List<ConsumerRecord<String, String>> readRecords(Consumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long end = System.currentTimeMillis() + limitMs;
        while (found.size() < count && System.currentTimeMillis() < end) {
            consumer.poll(Duration.ofMillis(limitMs)).forEach(found::add);
        }
        return found.subList(0, count);
    }

    // The pieces -------------------------------------------------------------------------------

    private Map<String, ?> cluster() throws Exception {
        try (Admin admin = admin()) {
            DescribeClusterResult found = admin.describeCluster();
            List<Integer> ids = found.nodes().get().stream().map(Node::id).toList();
            return Map.of("brokers", ids.size(), "has_controller", ids.contains(found.controller().get().id()));
        }
    }

    private Map<String, ?> topics() throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic("made", 3, (short) 1))).all().get();
            int created = partitions(admin);
            String again = "created again";
            try {
                admin.createTopics(List.of(new NewTopic("made", 1, (short) 1))).all().get();
            } catch (ExecutionException e) {
                again = e.getCause() instanceof TopicExistsException ? "exists" : e.toString();
            }
            admin.createPartitions(Map.of("made", NewPartitions.increaseTo(5))).all().get();
            int grown = partitions(admin);
            admin.deleteTopics(List.of("made")).all().get();
            boolean removed = !admin.listTopics().names().get().contains("made");
            return Map.of("created", created, "again", again, "grown", grown, "removed", removed);
        }
    }

    private static int partitions(Admin admin) throws Exception {
        return admin.describeTopics(List.of("made")).allTopicNames().get().get("made").partitions().size();
    }

    private Map<String, ?> configs() throws Exception {
        create("configured", 1);
        try (Admin admin = admin()) {
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "configured");
            String before = currentValue(admin, topic);
            change(admin, topic, AlterConfigOp.OpType.SET, RETENTION_MS);
            String set = currentValue(admin, topic);
            change(admin, topic, AlterConfigOp.OpType.DELETE, "");
            return Map.of("before", before, "set", set, "after", currentValue(admin, topic));
        }
    }

    private static String currentValue(Admin admin, ConfigResource topic) throws Exception {
        return admin.describeConfigs(List.of(topic)).all().get().get(topic).get("retention.ms").value();
    }

    private static void change(Admin admin, ConfigResource topic, AlterConfigOp.OpType how, String value)
            throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", value), how);
        admin.incrementalAlterConfigs(Map.of(topic, List.of(change))).all().get();
    }

    private Map<String, ?> codecs() throws Exception {
        ObjectNode found = Driver.JSON.createObjectNode();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic = "codec-" + codec;
            create(topic, 1);
            List<String> written = values("the same again and again %d");
            produce(topic, written, List.of(), "compression.type", codec);
            try (Consumer<String, String> consumer = assigned(topic, 0)) {
                List<ConsumerRecord<String, String>> records = readRecords(consumer, COUNT);
                found.put(codec, IntStream.range(0, COUNT).filter(n -> isSame(records.get(n), n, written)).count());
            }
        }
        return Driver.JSON.convertValue(found, Map.class);
    }

    private static boolean isSame(ConsumerRecord<String, String> record, int n, List<String> written) {
        return record.value().equals(written.get(n))
            && record.key().equals("k" + n)
            && record.timestamp() == TIME_MS + n
            && Arrays.equals(record.headers().lastHeader("n").value(), String.valueOf(n).getBytes());
    }

    private Map<String, ?> idempotent() throws Exception {
        create("numbered", 1);
        List<Long> offsets = produce("numbered", values("%d"), List.of(), "enable.idempotence", true);
        List<Long> wanted = IntStream.range(0, COUNT).mapToObj(Long::valueOf).toList();
        return Map.of("count", offsets.size(), "is_in_order", offsets.equals(wanted));
    }

    private Map<String, ?> assignment() throws Exception {
        create("assigned", 1);
        produce("assigned", values("%d"), List.of());
        try (Consumer<String, String> consumer = assigned("assigned", 30)) {
            List<ConsumerRecord<String, String>> found = readRecords(consumer, 10);
            return Map.of("first", Integer.parseInt(found.get(0).value()), "count", found.size());
        }
    }

    private Map<String, ?> times() throws Exception {
        create("timed", 1);
        produce("timed", List.of("a", "b", "c"), List.of(1000L, 2000L, 3000L));
        TopicPartition partition = new TopicPartition("timed", 0);
        try (Consumer<String, String> consumer = consumer(null)) {
            return Map.of(
                "earliest", consumer.beginningOffsets(List.of(partition)).get(partition),
                "latest", consumer.endOffsets(List.of(partition)).get(partition),
                "at_1500", offsetAt(consumer, partition, 1500),
                "at_9000", offsetAt(consumer, partition, 9000));
        }
    }

    private static long offsetAt(Consumer<String, String> consumer, TopicPartition partition, long time) {
        OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition);
        return found == null ? -1 : found.offset();
    }

    private Map<String, ?> deletion() throws Exception {
        create("deleted", 1);
        produce("deleted", values("%d"), List.of());
        TopicPartition partition = new TopicPartition("deleted", 0);
        try (Admin admin = admin(); Consumer<String, String> consumer = consumer(null)) {
            Map<TopicPartition, RecordsToDelete> wanted = Map.of(partition, RecordsToDelete.beforeOffset(5));
            long begin = admin.deleteRecords(wanted).lowWatermarks().get(partition).get().lowWatermark();
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            return Map.of("begins_at", begin, "first", Integer.parseInt(readRecords(consumer, 1).get(0).value()));
        }
    }

    private Map<String, ?> rebalance() throws Exception {
        create("shared", 4);
        try (Consumer<String, String> first = sharer()) {
            List<Integer> alone = until(List.of(4)::equals, first);
            List<Integer> together;
            try (Consumer<String, String> second = sharer()) {
                together = until(List.of(2, 2)::equals, first, second);
            }
            List<Integer> again = until(List.of(4)::equals, first);
            return Map.of("alone", alone, "together", together, "alone_again", again);
        }
    }

    private Consumer<String, String> sharer() {
        Consumer<String, String> consumer = consumer("sharers");
        consumer.subscribe(List.of("shared"));
        return consumer;
    }

    /** Polls the consumers in turn until `isDone` is true of their numbers of partitions. */
    @SafeVarargs
    private final List<Integer> until(Predicate<List<Integer>> isDone, Consumer<String, String>... consumers) {
        List<Integer> sizes;
        long end = System.currentTimeMillis() + limitMs;
        do {
            for (Consumer<String, String> consumer : consumers) {
                consumer.poll(Duration.ofMillis(50));
            }
            sizes = Stream.of(consumers).map(consumer -> consumer.assignment().size()).toList();
        } while (!isDone.test(sizes) && System.currentTimeMillis() < end);
        return sizes;
    }

    private void readAndCommit(String topic, String group) throws Exception {
        create(topic, 1);
        produce(topic, values("%d"), List.of());
        try (Consumer<String, String> member = consumer(group)) {
            member.subscribe(List.of(topic));
            long last = readRecords(member, 20).get(19).offset();
            member.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(last + 1)));
        }
    }

    private Map<String, ?> resume() throws Exception {
        readAndCommit("resumed", "resumers");
        TopicPartition partition = new TopicPartition("resumed", 0);
        try (Consumer<String, String> second = consumer("resumers")) {
            second.subscribe(List.of("resumed"));
            long next = readRecords(second, 1).get(0).offset();
            OffsetAndMetadata committed = second.committed(java.util.Set.of(partition)).get(partition);
            return Map.of("committed", committed.offset(), "resumed_at", next);
        }
    }

    private Map<String, ?> groups() throws Exception {
        readAndCommit("grouped", "administered");
        TopicPartition partition = new TopicPartition("grouped", 0);
        List<String> ours = List.of("administered");
        try (Admin admin = admin()) {
            boolean listed = groupIds(admin).contains("administered");
            String state = admin.describeConsumerGroups(ours).all().get().get("administered").groupState().toString();
            long committed = committed(admin, partition);
            Map<TopicPartition, OffsetAndMetadata> wanted = Map.of(partition, new OffsetAndMetadata(5));
            admin.alterConsumerGroupOffsets("administered", wanted).all().get();
            long moved = committed(admin, partition);
            admin.deleteConsumerGroups(ours).all().get();
            return Map.of("listed", listed, "state", state, "committed", committed, "reset_to", moved,
                "removed", !groupIds(admin).contains("administered"));
        }
    }

    private static List<String> groupIds(Admin admin) throws Exception {
        return admin.listGroups().all().get().stream().map(GroupListing::groupId).toList();
    }

    private static long committed(Admin admin, TopicPartition partition) throws Exception {
        return admin.listConsumerGroupOffsets("administered").partitionsToOffsetAndMetadata().get()
            .get(partition).offset();
    }
}
