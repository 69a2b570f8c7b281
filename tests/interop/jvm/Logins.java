import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Logins of Kafka's own clients: each way to get in of a file of JSON, and what comes of it. */
public final class Logins {
    private static final String TOPIC = "logins";
    private static final String ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls";
    private static final String MODULES = "org.apache.kafka.common.security.";

    public static void main(String[] args) throws Exception {
        long limitMs = 1000 * Long.parseLong(args[1]);
        JsonNode all = Driver.JSON.readTree(new File(args[0]));
        System.setProperty(ALLOWED, String.join(",", all.findValuesAsText("token_url")));
        for (JsonNode each : all) {
            String outcome;
            try {
                attempt(properties(each, limitMs), limitMs);
                outcome = "in";
            } catch (ExecutionException e) {
                outcome = String.valueOf(e.getCause());
            } catch (Exception e) {
                outcome = String.valueOf(e);
            }
            List<String> line = List.of(each.get("name").asText(), outcome);
            System.out.println(Driver.JSON.writeValueAsString(line));
        }
    }

    private static Properties properties(JsonNode each, long limitMs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", text(each, "address"));
        properties.put("security.protocol", text(each, "protocol"));
        properties.put("max.block.ms", limitMs);
        properties.put("default.api.timeout.ms", (int) limitMs);
        if (!text(each, "ca").isEmpty()) {
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.location", text(each, "ca"));
        }
        if (!text(each, "certificate").isEmpty()) {
            properties.put("ssl.keystore.type", "PEM");
            properties.put("ssl.keystore.location", text(each, "certificate"));
        }
        String mechanism = text(each, "mechanism");
        if (!mechanism.isEmpty()) {
            properties.put("sasl.mechanism", mechanism);
            properties.put("sasl.jaas.config", jaas(each, mechanism));
        }
        if (mechanism.equals("OAUTHBEARER")) {
            properties.put("sasl.oauthbearer.token.endpoint.url", text(each, "token_url"));
            properties.put(
                "sasl.login.callback.handler.class",
                MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler");
        }
        return properties;
    }

    private static String text(JsonNode each, String field) {
        return each.get(field).asText();
    }

    private static String jaas(JsonNode each, String mechanism) {
        if (mechanism.equals("OAUTHBEARER")) {
            return MODULES + "oauthbearer.OAuthBearerLoginModule required;";
        }
        Map<Boolean, String> modules =
            Map.of(true, "plain.PlainLoginModule", false, "scram.ScramLoginModule");
        return String.format(
            "%s%s required username=\"%s\" password=\"%s\";",
            MODULES, modules.get(mechanism.equals("PLAIN")), text(each, "user"), text(each, "password"));
    }

    private static void attempt(Properties properties, long limitMs) throws Exception {
        StringSerializer serializer = new StringSerializer();
        try (KafkaProducer<String, String> producer =
            new KafkaProducer<>(properties, serializer, serializer)) {
            producer.send(new ProducerRecord<>(TOPIC, 0, null, "value")).get();
        }
        StringDeserializer deserializer = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(properties, deserializer, deserializer)) {
            TopicPartition partition = new TopicPartition(TOPIC, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            if (consumer.poll(Duration.ofMillis(limitMs)).isEmpty()) {
                throw new IllegalStateException("no record");
            }
        }
    }
}
