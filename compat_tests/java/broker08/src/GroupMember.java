import java.io.FileReader;
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

/**
 * A member of a group with the high-level consumer of Kafka 0.8: consumer.properties, then static, white_list or
 * black_list, then the topic or the expression, then the number of streams. It prints a line for each message:
 * topic, partition, offset. It commits and leaves at the end of its input.
 */
public class GroupMember {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.load(new FileReader(arguments[0]));
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
        for (KafkaStream<byte[], byte[]> stream :
                streams(connector, arguments[1], arguments[2], Integer.parseInt(arguments[3]))) {
            Thread thread = new Thread(() -> print(stream.iterator()));
            thread.setDaemon(true);
            thread.start();
        }
        while (System.in.read() >= 0) { }
        connector.commitOffsets();
        connector.shutdown();
    }

    private static List<KafkaStream<byte[], byte[]>> streams(
            ConsumerConnector connector, String pattern, String what, int count) {
        switch (pattern) {
            case "white_list":
                return connector.createMessageStreamsByFilter(new Whitelist(what), count);
            case "black_list":
                return connector.createMessageStreamsByFilter(new Blacklist(what), count);
            default:
                return connector.createMessageStreams(Collections.singletonMap(what, count)).get(what);
        }
    }

    private static void print(ConsumerIterator<byte[], byte[]> messages) {
        while (messages.hasNext()) {
            kafka.message.MessageAndMetadata<byte[], byte[]> message = messages.next();
            System.out.println(message.topic() + "\t" + message.partition() + "\t" + message.offset());
        }
    }
}
