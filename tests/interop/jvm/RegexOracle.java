import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;

/**
 * Matches topics as Kafka's coordinator does. Stdin is a list of [pattern, [topic, ...]], stdout for
 * each the topics that match, or the description of the exception.
 */
public final class RegexOracle {
    public static void main(String[] args) throws Exception {
        ArrayNode answers = Driver.JSON.createArrayNode();
        for (JsonNode question : Driver.JSON.readTree(System.in.readAllBytes())) {
            try {
                Pattern pattern = Pattern.compile(question.get(0).asText());
                ArrayNode matching = Driver.JSON.createArrayNode();
                for (JsonNode topic : question.get(1)) {
                    if (pattern.matcher(topic.asText()).matches()) {
                        matching.add(topic.asText());
                    }
                }
                answers.add(matching);
            } catch (PatternSyntaxException e) {
                answers.add(e.getDescription());
            }
        }
        System.out.println(Driver.JSON.writeValueAsString(answers));
    }
}
