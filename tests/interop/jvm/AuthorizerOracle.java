import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.net.InetAddress;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Who may do what, by Kafka's own authorizer. */
final class AuthorizerOracle {
    /**
     * For each item, which has ACLs and questions, the answers: whether the principal may do it to
     * the resource, and whether to any resource of the type.
     */
    static JsonNode authorize(JsonNode items) throws Exception {
        ArrayNode results = Driver.JSON.createArrayNode();
        for (JsonNode item : items) {
            StandardAuthorizer authorizer = new StandardAuthorizer();
            authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
            authorizer.configure(Map.of(
                "node.id", "1",
                "super.users", item.get("super_users").asText(),
                "allow.everyone.if.no.acl.found", item.get("everyone").asText()));
            for (JsonNode acl : item.get("acls")) {
                authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode((byte) acl.get(0).asInt()),
                    acl.get(1).asText(),
                    PatternType.fromCode((byte) acl.get(2).asInt()),
                    acl.get(3).asText(),
                    acl.get(4).asText(),
                    AclOperation.fromCode((byte) acl.get(5).asInt()),
                    AclPermissionType.fromCode((byte) acl.get(6).asInt())));
            }
            authorizer.completeInitialLoad();
            ArrayNode answers = results.addArray();
            for (JsonNode question : item.get("questions")) {
                Client client = new Client(question.get(0).asText(), question.get(1).asText());
                AclOperation operation = AclOperation.fromCode((byte) question.get(2).asInt());
                ResourceType type = ResourceType.fromCode((byte) question.get(3).asInt());
                ResourcePattern resource =
                    new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL);
                Action action = new Action(operation, resource, 1, false, false);
                answers.addArray()
                    .add(isAllowed(authorizer.authorize(client, List.of(action)).get(0)))
                    .add(isAllowed(authorizer.authorizeByResourceType(client, operation, type)));
            }
        }
        return results;
    }

    private static boolean isAllowed(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED;
    }

    private record Client(String name, String address) implements AuthorizableRequestContext {
        @Override
        public KafkaPrincipal principal() {
            String[] parts = name.split(":", 2);
            return new KafkaPrincipal(parts[0], parts[1]);
        }

        @Override
        public InetAddress clientAddress() {
            try {
                return InetAddress.getByName(address);
            } catch (java.net.UnknownHostException e) {
                throw new IllegalArgumentException(e);
            }
        }

        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    private AuthorizerOracle() {
    }
}
