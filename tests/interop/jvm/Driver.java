import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * One JVM for a whole test run: Kafka's tools and message classes, called by requests.
 *
 * A request is a line of JSON with an "id" and a "command"; the response is a line with the same
 * id and either "ok" or "error". Requests run concurrently, and responses come in any order.
 * The end of stdin is the end of the process, so that it never outlives the tests.
 */
public final class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<Integer, ToolCall> RUNNING = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream responses = System.out;
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
        ToolCall.takeOverStandardStreams();
        ToolCall.takeOverExit();
        ExecutorService threads = Executors.newCachedThreadPool(Driver::daemon);
        respond(responses, JSON.createObjectNode().put("id", 0).put("ok", "ready"));
        for (String line; (line = requests.readLine()) != null; ) {
            JsonNode request = JSON.readTree(line);
            if (request.get("command").asText().equals("quit")) {
                break;
            }
            threads.execute(() -> respond(responses, carryOut(request)));
        }
        Runtime.getRuntime().halt(0);
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work, "request");
        thread.setDaemon(true);
        return thread;
    }

    private static ObjectNode carryOut(JsonNode request) {
        ObjectNode response = JSON.createObjectNode().put("id", request.get("id").asInt());
        try {
            response.set("ok", dispatch(request));
        } catch (Throwable failure) {
            response.put("error", describe(failure));
        }
        return response;
    }

    private static JsonNode dispatch(JsonNode request) throws Exception {
        String command = request.get("command").asText();
        switch (command) {
            case "tool":
                return runTool(request);
            case "stop":
                return stopTool(request.get("call").asInt());
            case "decode":
                return Messages.decode(request.get("items"));
            case "encode":
                return Messages.encode(request.get("items"));
            case "build":
                return Batches.build(request.get("items"));
            case "parse":
                return Batches.parse(request.get("items"));
            case "authorize":
                return AuthorizerOracle.authorize(request.get("items"));
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }

    private static JsonNode runTool(JsonNode request) throws Exception {
        int id = request.get("id").asInt();
        ToolCall call = new ToolCall(request);
        RUNNING.put(id, call);
        try {
            return call.run();
        } finally {
            RUNNING.remove(id);
        }
    }

    /** Stops a tool as Ctrl-C does; false if it has already ended. */
    private static JsonNode stopTool(int id) {
        ToolCall call = RUNNING.get(id);
        if (call != null) {
            call.stopTool();
        }
        return JSON.getNodeFactory().booleanNode(call != null);
    }

    /** An exception and its causes in one line. */
    static String describe(Throwable failure) {
        StringBuilder text = new StringBuilder(failure.toString());
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
            text.append("; caused by ").append(cause);
        }
        return text.toString();
    }

    private static void respond(PrintStream responses, JsonNode response) {
        try {
            byte[] line = (JSON.writeValueAsString(response) + "\n").getBytes(StandardCharsets.UTF_8);
            synchronized (responses) {
                ((OutputStream) responses).write(line);
                responses.flush();
            }
        } catch (Exception e) {
            Runtime.getRuntime().halt(3); // stdout is closed: the tests have ended
        }
    }
}
