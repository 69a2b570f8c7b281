import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.Optional;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.ExternalKRaftMetrics;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;
import org.apache.kafka.raft.internals.KafkaRaftMetrics;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotReader;

/**
 * Loads a snapshot as a replica of Kafka's quorum does. The arguments are its folder, offset and
 * epoch; stdout has kraft.version and the voters.
 */
public final class SnapshotOracle {
    public static void main(String[] args) throws Exception {
        OffsetAndEpoch id = new OffsetAndEpoch(Long.parseLong(args[1]), Integer.parseInt(args[2]));
        try (FileRawSnapshotReader raw = FileRawSnapshotReader.open(Path.of(args[0]), id)) {
            RaftLog log = (RaftLog) Proxy.newProxyInstance(
                SnapshotOracle.class.getClassLoader(),
                new Class<?>[] {RaftLog.class},
                (self, method, given) -> switch (method.getName()) {
                    case "startOffset" -> id.offset();
                    case "endOffset" -> new LogOffsetMetadata(id.offset());
                    case "latestSnapshot" -> Optional.of(raw);
                    default -> throw new UnsupportedOperationException(method.getName());
                }
            );
            KafkaRaftMetrics metrics = new KafkaRaftMetrics(new Metrics(), "raft");
            KRaftControlRecordStateMachine state = new KRaftControlRecordStateMachine(
                VoterSet.empty(), log, MetadataRecordSerde.INSTANCE,
                8 << 20, new LogContext(), metrics, ignored -> { }
            );
            state.updateState();
            ObjectNode answer = Driver.JSON.createObjectNode();
            answer.put("kraft.version", state.lastKraftVersion().featureLevel());
            ArrayNode voters = answer.putArray("voters");
            for (VoterSet.VoterNode voter : state.lastVoterSet().voterNodes()) {
                voters.add(voter.voterKey().id() + " "
                    + voter.voterKey().directoryId().map(Object::toString).orElse("-"));
            }
            System.out.println(Driver.JSON.writeValueAsString(answer));
        }
    }
}
