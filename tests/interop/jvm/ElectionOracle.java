import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import org.apache.kafka.raft.ElectionState;
import org.apache.kafka.raft.FileQuorumStateStore;
import org.apache.kafka.raft.ReplicaKey;

/** Prints what Kafka reads from the `quorum-state` file whose path is the argument. */
public final class ElectionOracle {
    public static void main(String[] args) throws Exception {
        ElectionState state =
            new FileQuorumStateStore(new File(args[0])).readElectionState().orElseThrow();
        ObjectNode answer = Driver.JSON.createObjectNode();
        answer.put("epoch", state.epoch());
        answer.put("leader", state.optionalLeaderId().orElse(-1));
        answer.put("voted", state.optionalVotedKey().map(ReplicaKey::id).orElse(-1));
        answer.put("directory", state.optionalVotedKey()
            .flatMap(ReplicaKey::directoryId).map(Object::toString).orElse("-"));
        System.out.println(Driver.JSON.writeValueAsString(answer));
    }
}
