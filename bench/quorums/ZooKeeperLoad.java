import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * ZooKeeperLoad SERVERS IN_FLIGHT COUNT SECONDS: sets nodes to 100 bytes on one session, each until it
 * is acknowledged; COUNT in total, or as many as fit into SECONDS. Prints the total seconds, then the
 * microseconds of each; and "ready" to standard error once it begins.
 */
public class ZooKeeperLoad {
  static final int NODES = 100;
  static final int SESSION_MS = 30_000;
  static final byte[] VALUE = "x".repeat(100).getBytes();
  static final Queue<Long> took = new ConcurrentLinkedQueue<>();
  static ZooKeeper zookeeper;
  static Semaphore free;

  static void set(int number, long begin) {
    zookeeper.setData("/k" + number % NODES, VALUE, -1, (code, path, context, stat) -> {
      if (code != 0) {
        set(number, begin); // the connection was lost, and is opened again
        return;
      }
      took.add(System.nanoTime() - begin);
      free.release();
    }, null);
  }

  public static void main(String[] arguments) throws Exception {
    int inFlight = Integer.parseInt(arguments[1]);
    int count = Integer.parseInt(arguments[2]);
    double seconds = Double.parseDouble(arguments[3]);
    CountDownLatch connected = new CountDownLatch(1);
    zookeeper = new ZooKeeper(arguments[0], SESSION_MS, event -> {
      if (event.getState() == KeeperState.SyncConnected) connected.countDown();
    });
    connected.await();
    for (int i = 0; i < NODES; i++) {
      try {
        zookeeper.create("/k" + i, VALUE, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
      } catch (KeeperException.NodeExistsException e) {
        // by an earlier run
      }
    }
    free = new Semaphore(inFlight);
    System.err.println("ready");
    long start = System.nanoTime();
    for (int i = 0; i < count && System.nanoTime() - start < seconds * 1e9; i++) {
      free.acquire();
      set(i, System.nanoTime());
    }
    free.acquire(inFlight);
    StringBuilder lines = new StringBuilder((System.nanoTime() - start) / 1e9 + "\n");
    for (long each : took) lines.append(each / 1e3).append('\n');
    System.out.print(lines);
    System.out.flush();
    System.exit(0); // without waiting for the session to be closed
  }
}
