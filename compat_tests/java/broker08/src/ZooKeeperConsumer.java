import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import kafka.consumer.Blacklist;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/**
 * A member of a group with the consumer of Kafka 0.8 to 0.11 that finds brokers and other members in ZooKeeper. Compiled
 * against 0.8.2.2, it runs with the jars of each. Arguments: a file of properties; static, white_list or black_list; the
 * topic or the expression; the number of streams.
 *
 * <p>It prints "#started" when it has its streams, and a line for each message: topic, partition, offset, time (-1), key,
 * value (base64, null is "-"), and no headers, with tabs between. A line "commit" of its input commits, which is told by
 * "#committed". At the end of the input it leaves as a process in order does, which commits if auto.commit.enable is set.
 */
public final class ZooKeeperConsumer {
    private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private ZooKeeperConsumer() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (var reader = new FileReader(arguments[0], StandardCharsets.UTF_8)) {
            properties.load(reader);
        }
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
        List<KafkaStream<byte[], byte[]>> streams =
                streams(connector, arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        OUTPUT.println("#started");
        List<Thread> threads = streams.stream()
                .map(stream -> new Thread(() -> print(stream.iterator())))
                .toList();
        threads.forEach(Thread::start);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        while (input.readLine() != null) {
            connector.commitOffsets();
            OUTPUT.println("#committed");
        }
        connector.shutdown();
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static List<KafkaStream<byte[], byte[]>> streams(
            ConsumerConnector connector, String pattern, String what, int count) {
        return switch (pattern) {
            case "white_list" -> connector.createMessageStreamsByFilter(new Whitelist(what), count);
            case "black_list" -> connector.createMessageStreamsByFilter(new Blacklist(what), count);
            default -> connector.createMessageStreams(Collections.singletonMap(what, count)).get(what);
        };
    }

    private static void print(ConsumerIterator<byte[], byte[]> messages) {
        while (messages.hasNext()) {
            MessageAndMetadata<byte[], byte[]> message = messages.next();
            OUTPUT.println(message.topic() + "\t" + message.partition() + "\t" + message.offset() + "\t-1\t"
                    + text(message.key()) + "\t" + text(message.message()) + "\t");
        }
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }
}
