import java.io.File;
import java.net.InetSocketAddress;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * Apache Kafka 2.8 and the ZooKeeper that it needs, in one process: server.properties, ZooKeeper's port and directory.
 */
public class KafkaWithZooKeeper {
    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[2]);
        ZooKeeperServer server = new ZooKeeperServer(directory, directory, 2000);
        NIOServerCnxnFactory connections = new NIOServerCnxnFactory();
        connections.configure(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[1])), 20);
        connections.startup(server);
        kafka.Kafka.main(new String[] {arguments[0]});
    }
}
