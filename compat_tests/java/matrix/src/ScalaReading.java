import java.io.PrintStream;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.cluster.Broker;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.Message;
import kafka.message.MessageAndOffset;

/** The consumer of Kafka 0.8 that talks to brokers alone: it finds leaders and offsets by itself. */
final class ScalaReading {
    private static final int TIMEOUT_MS = 30_000;
    private static final int FETCH_BYTES = 1 << 16;
    private static final String CLIENT_ID = "scala";

    private ScalaReading() {}

    static void read(String bootstrap, String topic, int count, PrintStream output) {
        long deadline = System.nanoTime() + Age.LIMIT.toNanos();
        int left = count;
        Map<Integer, Broker> leaders = leaders(bootstrap, topic);
        Map<Integer, Long> positions = new HashMap<>();
        // What is there already, of one partition after the other; then what comes
        while (left > 0 && System.nanoTime() < deadline) {
            for (int partition : leaders.keySet()) {
                Broker broker = leaders.get(partition);
                SimpleConsumer consumer =
                        new SimpleConsumer(broker.host(), broker.port(), TIMEOUT_MS, FETCH_BYTES, CLIENT_ID);
                long end = offset(consumer, topic, partition, kafka.api.OffsetRequest.LatestTime());
                long earliest = offset(consumer, topic, partition, kafka.api.OffsetRequest.EarliestTime());
                long next = positions.getOrDefault(partition, earliest);
                do {
                    for (MessageAndOffset found : fetch(consumer, topic, partition, next)) {
                        // A compressed set comes whole, from its first record on
                        if (found.offset() >= next) {
                            output.println(line(partition, found));
                            next = found.nextOffset();
                            left -= 1;
                        }
                    }
                } while (next < end && System.nanoTime() < deadline);
                positions.put(partition, next);
                consumer.close();
            }
        }
        if (left > 0) {
            throw new IllegalStateException(left + " records did not come");
        }
    }

    private static Map<Integer, Broker> leaders(String bootstrap, String topic) {
        String[] address = bootstrap.split(":");
        SimpleConsumer consumer =
                new SimpleConsumer(address[0], Integer.parseInt(address[1]), TIMEOUT_MS, FETCH_BYTES, CLIENT_ID);
        Map<Integer, Broker> found = new TreeMap<>();
        var metadata = consumer.send(new TopicMetadataRequest(List.of(topic))).topicsMetadata().get(0);
        for (PartitionMetadata partition : metadata.partitionsMetadata()) {
            found.put(partition.partitionId(), partition.leader());
        }
        consumer.close();
        return found;
    }

    private static long offset(SimpleConsumer consumer, String topic, int partition, long time) {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> asked = new HashMap<>();
        asked.put(new TopicAndPartition(topic, partition), new PartitionOffsetRequestInfo(time, 1));
        var request = new OffsetRequest(asked, kafka.api.OffsetRequest.CurrentVersion(), CLIENT_ID);
        return consumer.getOffsetsBefore(request).offsets(topic, partition)[0];
    }

    private static Iterable<MessageAndOffset> fetch(SimpleConsumer consumer, String topic, int partition, long next) {
        var request = new FetchRequestBuilder()
                .clientId(CLIENT_ID)
                .addFetch(topic, partition, next, FETCH_BYTES)
                .maxWait(500)
                .minBytes(1)
                .build();
        FetchResponse response = consumer.fetch(request);
        if (response.hasError()) {
            throw new IllegalStateException("Fetch was answered with error " + response.errorCode(topic, partition));
        }
        return response.messageSet(topic, partition);
    }

    private static String line(int partition, MessageAndOffset found) {
        Message message = found.message();
        message.ensureValid();
        byte[] key = Line.bytes(message.key());
        return Line.received(partition, found.offset(), -1, key, Line.bytes(message.payload()), List.of());
    }
}
