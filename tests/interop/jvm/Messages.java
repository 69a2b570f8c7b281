import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Bytes to JSON and back by Kafka's generated message classes.
 *
 * A class is named by its full name, by its bare one (TopicRecord, FetchRequest), or by API key
 * (request:18, response:18). "metadata" is a record of the metadata log in its frame.
 */
final class Messages {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.raft.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
    };
    private static final Map<String, Codec> CODECS = new ConcurrentHashMap<>();

    private Messages() { }

    /** Items are [class, version, bytes]; one that fails gets its own error. */
    static ArrayNode decode(JsonNode items) {
        ArrayNode answers = Driver.JSON.createArrayNode();
        for (JsonNode item : items) {
            ObjectNode answer = answers.addObject();
            try {
                ByteBuffer bytes = ByteBuffer.wrap(item.get(2).binaryValue());
                if (item.get(0).asText().equals("metadata")) {
                    decodeMetadata(bytes, answer);
                } else {
                    codec(item).decode((short) item.get(1).asInt(), bytes, answer);
                }
                answer.put("left", bytes.remaining());
            } catch (InvocationTargetException e) {
                answer.removeAll().put("error", Driver.describe(e.getCause()));
            } catch (Exception | OutOfMemoryError e) {
                answer.removeAll().put("error", Driver.describe(e));
            }
        }
        return answers;
    }

    /** Items are [class, version, JSON]. */
    static ArrayNode encode(JsonNode items) {
        ArrayNode answers = Driver.JSON.createArrayNode();
        for (JsonNode item : items) {
            ObjectNode answer = answers.addObject();
            try {
                boolean isMetadata = item.get(0).asText().equals("metadata");
                short version = (short) item.get(1).asInt();
                answer.put("bytes", isMetadata ? encodeMetadata(item.get(2))
                    : codec(item).encode(version, item.get(2)));
            } catch (InvocationTargetException e) {
                answer.put("error", Driver.describe(e.getCause()));
            } catch (Exception e) {
                answer.put("error", Driver.describe(e));
            }
        }
        return answers;
    }

    private static Codec codec(JsonNode item) {
        return CODECS.computeIfAbsent(item.get(0).asText(), Codec::new);
    }

    private static void decodeMetadata(ByteBuffer bytes, ObjectNode answer) {
        MetadataRecordSerde serde = MetadataRecordSerde.INSTANCE;
        ApiMessageAndVersion record = serde.read(new ByteBufferAccessor(bytes), bytes.remaining());
        ApiMessage message = record.message();
        answer.putObject("json")
            .put("type", MetadataRecordType.fromId(message.apiKey()).name())
            .put("apiKey", message.apiKey())
            .put("version", record.version())
            .set("data", MetadataJsonConverters.writeJson(message, record.version()));
        answer.put("bytes", frame(record));
    }

    private static byte[] encodeMetadata(JsonNode json) {
        short key = (short) json.get("apiKey").asInt();
        short version = (short) json.get("version").asInt();
        ApiMessage message = MetadataJsonConverters.readJson(json.get("data"), key, version);
        return frame(new ApiMessageAndVersion(message, version));
    }

    private static byte[] frame(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] bytes = new byte[MetadataRecordSerde.INSTANCE.recordSize(record, cache)];
        ByteBufferAccessor writer = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
        MetadataRecordSerde.INSTANCE.write(record, cache, writer);
        return bytes;
    }

    private static byte[] bytesOf(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] bytes = new byte[message.size(cache, version)];
        message.write(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), cache, version);
        return bytes;
    }

    /** A message class with the JSON converter that Kafka generates beside it. */
    private static final class Codec {
        private final Class<?> message;
        private final Method toJson;
        private final Method fromJson;

        Codec(String name) {
            try {
                message = find(name);
                Class<?> converter = Class.forName(message.getName() + "JsonConverter");
                toJson = converter.getMethod("write", message, short.class);
                fromJson = converter.getMethod("read", JsonNode.class, short.class);
            } catch (ReflectiveOperationException e) {
                throw new IllegalArgumentException("no message class " + name, e);
            }
        }

        private static Class<?> find(String name) throws ClassNotFoundException {
            if (name.startsWith("request:")) {
                return api(name).newRequest().getClass();
            }
            if (name.startsWith("response:")) {
                return api(name).newResponse().getClass();
            }
            if (name.contains(".")) {
                return Class.forName(name);
            }
            for (String prefix : PACKAGES) {
                for (String suffix : new String[] {"", "Data"}) {
                    try {
                        return Class.forName(prefix + name + suffix);
                    } catch (ClassNotFoundException | NoClassDefFoundError e) {
                        continue;
                    }
                }
            }
            throw new ClassNotFoundException(name);
        }

        private static ApiMessageType api(String name) {
            return ApiMessageType.fromApiKey(Short.parseShort(name.split(":")[1]));
        }

        void decode(short version, ByteBuffer bytes, ObjectNode answer)
                throws ReflectiveOperationException {
            Message decoded = (Message) message.getConstructor().newInstance();
            decoded.read(new ByteBufferAccessor(bytes), version);
            answer.set("json", (JsonNode) toJson.invoke(null, decoded, version));
            answer.put("bytes", bytesOf(decoded, version));
        }

        byte[] encode(short version, JsonNode json) throws ReflectiveOperationException {
            return bytesOf((Message) fromJson.invoke(null, json, version), version);
        }
    }
}
