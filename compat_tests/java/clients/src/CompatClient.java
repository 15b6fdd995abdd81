import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The stock Java client, driven over its standard input so that one JVM serves many tests.
 *
 * <p>A command is one line of fields separated by tabs; it is answered by lines of records, where it reads, and by one last
 * line "done" or "error" with a sentence. Bytes are base64, null is "-".
 *
 * <pre>
 *   settings path                            the file with the settings of the commands that follow
 *   produce  bootstrap topic codec           then lines of records to send, then the line "end"
 *   consume  bootstrap topic limits start    limits 0=100,1=50; start "start", "offset 0=10,1=20" or "time 1700000000000"
 *   tail     bootstrap topic                 partition 0 from its end: "ready", then records as they come, until the line "stop"
 * </pre>
 *
 * A record sent: partition timestamp key value headers; a record received has its offset after the partition.
 */
public final class CompatClient {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final int DEFAULT_POLL_MS = 500;
    // A consumer closes only after the fetch under way, which is answered so late at the end of a partition
    private static final int SHORT_POLL_MS = 50;
    private static final BufferedReader INPUT =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private static final PrintStream OUTPUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private static String settingsPath = System.getenv("COMPAT_SETTINGS");

    private CompatClient() {}

    public static void main(String[] arguments) throws IOException {
        for (String line = INPUT.readLine(); line != null; line = INPUT.readLine()) {
            String[] fields = line.split("\t", -1);
            try {
                switch (fields[0]) {
                    case "settings" -> settingsPath = fields[1];
                    case "produce" -> produce(fields[1], fields[2], fields[3]);
                    case "consume" -> consume(fields[1], fields[2], numbers(fields[3]), fields[4]);
                    case "tail" -> tail(fields[1], fields[2]);
                    default -> throw new IllegalArgumentException("unknown command " + fields[0]);
                }
                OUTPUT.println("done");
            } catch (Exception failure) {
                OUTPUT.println("error\t" + failure);
            }
            OUTPUT.flush();
        }
    }

    /** The settings of the present file, at first the one that COMPAT_SETTINGS names, if any. */
    private static void addSecurity(Properties settings) {
        if (settingsPath != null) {
            try (Reader file = Files.newBufferedReader(Path.of(settingsPath))) {
                settings.load(file);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }

    private static void produce(String bootstrap, String topic, String codec) throws Exception {
        Properties settings = new Properties();
        addSecurity(settings);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line = INPUT.readLine(); !line.equals("end"); line = INPUT.readLine()) {
                producer.send(toSend(topic, line.split("\t", -1)), (metadata, error) -> {
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                });
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }

    private static ProducerRecord<byte[], byte[]> toSend(String topic, String[] fields) {
        List<Header> headers = new ArrayList<>();
        for (String pair : fields[4].isEmpty() ? new String[0] : fields[4].split(",")) {
            String[] sides = pair.split(":", -1);
            headers.add(new RecordHeader(new String(bytes(sides[0]), StandardCharsets.UTF_8), bytes(sides[1])));
        }
        Integer partition = Integer.valueOf(fields[0]);
        return new ProducerRecord<>(topic, partition, Long.valueOf(fields[1]), bytes(fields[2]), bytes(fields[3]), headers);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, int longPollMs) {
        Properties settings = new Properties();
        addSecurity(settings);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("fetch.max.wait.ms", longPollMs);
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void consume(String bootstrap, String topic, Map<Integer, Long> limits, String start) {
        try (var consumer = consumer(bootstrap, SHORT_POLL_MS)) {
            List<TopicPartition> partitions = limits.keySet().stream().map(p -> new TopicPartition(topic, p)).toList();
            consumer.assign(partitions);
            seek(consumer, partitions, start.split(" "));
            Map<Integer, Long> left = new HashMap<>(limits);
            left.values().removeIf(count -> count == 0);
            long deadline = System.nanoTime() + LIMIT.toNanos();
            while (!left.isEmpty()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("records of these partitions did not come: " + left);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    if (left.containsKey(record.partition())) {
                        OUTPUT.println(received(record));
                        left.computeIfPresent(record.partition(), (partition, count) -> count == 1 ? null : count - 1);
                    }
                }
            }
        }
    }

    private static void seek(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, String[] start) {
        switch (start[0]) {
            case "start" -> consumer.seekToBeginning(partitions);
            case "offset" -> {
                Map<Integer, Long> offsets = numbers(start[1]);
                partitions.forEach(one -> consumer.seek(one, offsets.get(one.partition())));
            }
            case "time" -> {
                Map<TopicPartition, Long> times = new HashMap<>();
                partitions.forEach(one -> times.put(one, Long.valueOf(start[1])));
                Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(times);
                partitions.forEach(one -> {
                    if (found.get(one) == null) {
                        consumer.seekToEnd(List.of(one));
                    } else {
                        consumer.seek(one, found.get(one).offset());
                    }
                });
            }
            default -> throw new IllegalArgumentException("unknown start " + start[0]);
        }
    }

    private static void tail(String bootstrap, String topic) throws IOException {
        try (var consumer = consumer(bootstrap, DEFAULT_POLL_MS)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            consumer.position(partition);
            consumer.poll(Duration.ofMillis(200));
            OUTPUT.println("ready");
            OUTPUT.flush();
            while (!INPUT.ready()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    OUTPUT.println(received(record));
                    OUTPUT.flush();
                }
            }
            INPUT.readLine();
        }
    }

    private static String received(ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(text(header.key().getBytes(StandardCharsets.UTF_8)) + ":" + text(header.value()));
        }
        return String.join(
                "\t",
                String.valueOf(record.partition()),
                String.valueOf(record.offset()),
                String.valueOf(record.timestamp()),
                text(record.key()),
                text(record.value()),
                String.join(",", headers));
    }

    private static Map<Integer, Long> numbers(String text) {
        Map<Integer, Long> found = new HashMap<>();
        for (String pair : text.split(",")) {
            String[] sides = pair.split("=");
            found.put(Integer.valueOf(sides[0]), Long.valueOf(sides[1]));
        }
        return found;
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }
}
