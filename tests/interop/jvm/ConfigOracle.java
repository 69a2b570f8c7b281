import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.StringReader;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Checks configs with Kafka's classes. Stdin is a list of questions in JSON, stdout the answers.
 *
 * ["keys"]                   every key of every kind of resource
 * ["value", kind, key, text] the value as a text, or an error
 * ["properties", text]       the pairs in a file
 * ["start", text]            null, or why no broker starts with this file
 * ["topic", pairs, text]     null, or why no topic can have these configs with that broker file
 * ["group", pairs, text]     null, or the same for a group
 * ["dynamic", pairs, one]    null, or why they can't be set for one broker (or for all)
 */
public final class ConfigOracle {
    private static final Map<String, ConfigDef> KINDS = Map.of(
        "broker", KafkaConfig.configDef(),
        "quota", QuotaConfig.brokerQuotaConfigs(),
        "topic", LogConfig.configDefCopy(),
        "group", GroupConfig.CONFIG_DEF,
        "client-metrics", ClientMetricsConfigs.configDef());

    public static void main(String[] args) throws Exception {
        ArrayNode answers = Driver.JSON.createArrayNode();
        for (JsonNode question : Driver.JSON.readTree(System.in.readAllBytes())) {
            try {
                answers.addPOJO(answer(question));
            } catch (RuntimeException e) {
                answers.addPOJO(Map.of("error", String.valueOf(e.getMessage())));
            }
        }
        System.out.println(Driver.JSON.writeValueAsString(answers));
    }

    private static Object answer(JsonNode question) throws Exception {
        switch (question.get(0).asText()) {
            case "keys":
                return keys();
            case "value":
                return value(question);
            case "properties":
                return new TreeMap<>(load(question.get(1).asText()));
            case "start":
                new KafkaConfig(load(question.get(1).asText()), false);
                return null;
            case "topic":
                KafkaConfig broker = new KafkaConfig(load(question.get(2).asText()), false);
                LogConfig.validate(
                    Map.of(), pairs(question.get(1)), broker.extractLogConfigMap(), false);
                return null;
            case "group":
                KafkaConfig node = new KafkaConfig(load(question.get(2).asText()), false);
                GroupConfig.validate(
                    pairs(question.get(1)), node.groupCoordinatorConfig(), node.shareGroupConfig());
                return null;
            case "dynamic":
                Properties settings = new Properties();
                settings.putAll(pairs(question.get(1)));
                DynamicBrokerConfig.validateConfigs(settings, settings, question.get(2).asBoolean());
                return null;
            default:
                throw new IllegalArgumentException(question.toString());
        }
    }

    private static Object value(JsonNode question) {
        String kind = question.get(1).asText();
        String name = question.get(2).asText();
        String text = question.get(3).asText();
        ConfigDef.ConfigKey key = KINDS.get(kind).configKeys().get(name);
        Object value = ConfigDef.parseType(name, text, key.type);
        if (key.validator != null) {
            key.validator.ensureValid(name, value);
        }
        if (kind.equals("client-metrics")) {
            ClientMetricsConfigs.validate("name", Map.of(name, text));
        }
        return ConfigDef.convertToString(value, key.type);
    }

    private static ObjectNode keys() {
        ObjectNode kinds = Driver.JSON.createObjectNode();
        Map<String, String> changes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        KINDS.forEach((kind, definition) -> {
            ObjectNode keys = kinds.putObject(kind);
            for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
                ObjectNode facts = keys.putObject(key.name);
                facts.put("type", key.type.name().toLowerCase());
                facts.put("required", !key.hasDefault());
                facts.put("default", key.hasDefault() ? text(key.defaultValue, key.type) : null);
                facts.put("internal", key.internalConfig);
                facts.put("change", changes.getOrDefault(key.name, ""));
                facts.putPOJO("synonyms", synonyms(kind, key.name));
            }
        });
        return kinds;
    }

    private static String text(Object value, ConfigDef.Type type) {
        return value == null ? null : ConfigDef.convertToString(value, type);
    }

    /** Each synonym with the value that it converts "1" to. */
    private static List<List<String>> synonyms(String kind, String name) {
        if (kind.equals("group")) {
            Optional<String> synonym = GroupConfig.brokerSynonym(name);
            return synonym.map(s -> List.of(List.of(s, "1"))).orElse(List.of());
        }
        return ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS
            .getOrDefault(kind.equals("topic") ? name : "", List.of()).stream()
            .map(synonym -> List.of(synonym.name(), synonym.converter().apply("1"))).toList();
    }

    private static Properties load(String text) throws java.io.IOException {
        Properties properties = new Properties();
        properties.load(new StringReader(text));
        return properties;
    }

    private static Map<String, String> pairs(JsonNode pairs) {
        Map<String, String> map = new TreeMap<>();
        pairs.fields().forEachRemaining(pair -> map.put(pair.getKey(), pair.getValue().asText()));
        return map;
    }
}
