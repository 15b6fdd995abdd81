import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group: the stock Java client. Options, commands and events are those of groups/lines.py: "commit" on its
 * input, lines of JSON on its output; at the end of its input it closes its consumer.
 */
public final class GroupMember {
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Semaphore COMMITS = new Semaphore(0);
    private static volatile boolean isClosing = false;

    private GroupMember() {}

    public static void main(String[] arguments) {
        Map<String, String> options = new HashMap<>();
        for (int index = 0; index < arguments.length; index += 2) {
            options.put(arguments[index].substring(2), arguments[index + 1]);
        }
        Thread listener = new Thread(GroupMember::listen);
        listener.setDaemon(true);
        listener.start();
        String topic = options.get("topic");
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        try (var consumer =
                new KafkaConsumer<>(settings(options), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            Set<TopicPartition> owned = Set.of();
            while (!isClosing) {
                var records = poll(consumer);
                if (!consumer.assignment().equals(owned)) {
                    owned = Set.copyOf(consumer.assignment());
                    positions.keySet().retainAll(owned);
                    OUTPUT.println("{\"owned\": " + partitions(owned) + "}");
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    TopicPartition partition = new TopicPartition(topic, record.partition());
                    positions.put(partition, after(record));
                    OUTPUT.println("{\"partition\": " + record.partition() + ", \"offset\": " + record.offset() + "}");
                }
                if (COMMITS.tryAcquire()) {
                    commit(consumer, positions);
                }
            }
        }
    }

    private static Properties settings(Map<String, String> options) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("group.id", options.get("group"));
        settings.put("enable.auto.commit", "false");
        // A broker that stands still keeps its connections: only this time-out has the client look for another one
        settings.put("request.timeout.ms", "10000");
        settings.put("auto.offset.reset", options.getOrDefault("reset", "earliest"));
        if (options.containsKey("instance")) {
            settings.put("group.instance.id", options.get("instance"));
        }
        if (options.get("assignor").equals("server")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("group.protocol", "classic");
            settings.put("partition.assignment.strategy", ASSIGNORS.get(options.get("assignor")));
            settings.put("session.timeout.ms", options.get("session-ms"));
            settings.put("heartbeat.interval.ms", "500");
        }
        return settings;
    }

    /** Records; an error is said before it ends the program. */
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            return consumer.poll(Duration.ofMillis(100));
        } catch (KafkaException failure) {
            OUTPUT.println("{\"error\": \"" + failure.getClass().getSimpleName() + "\"}");
            throw failure;
        }
    }

    /** The position after a record, with its leader epoch, as commitSync() without arguments commits it. */
    private static OffsetAndMetadata after(ConsumerRecord<byte[], byte[]> record) {
        return new OffsetAndMetadata(record.offset() + 1, record.leaderEpoch(), "");
    }

    private static void listen() {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        input.lines().forEach(line -> COMMITS.release());
        isClosing = true;
    }

    private static void commit(
            KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, OffsetAndMetadata> positions) {
        try {
            consumer.commitSync(positions);
            OUTPUT.println("{\"committed\": \"\"}");
        } catch (KafkaException failure) {
            OUTPUT.println("{\"committed\": \"" + failure.getClass().getSimpleName() + "\"}");
        }
    }

    private static String partitions(Set<TopicPartition> owned) {
        return owned.stream()
                .map(TopicPartition::partition)
                .collect(Collectors.toCollection(TreeSet::new))
                .toString();
    }
}
