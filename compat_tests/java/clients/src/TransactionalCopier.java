import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Consumes, transforms and produces in transactions: the stock Java client, 3.9 or newer. Options, lines and exit codes
 * are those of copiers/copier.py.
 */
public final class TransactionalCopier {
    private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Duration WAIT = Duration.ofMillis(100);

    private final Map<String, String> options;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final Random chance;

    private TransactionalCopier(
            Map<String, String> options,
            KafkaConsumer<byte[], byte[]> consumer,
            KafkaProducer<byte[], byte[]> producer) {
        this.options = options;
        this.consumer = consumer;
        this.producer = producer;
        this.chance = new Random(options.get("seed").hashCode());
    }

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> options = new HashMap<>();
        for (int index = 0; index < arguments.length; index += 2) {
            options.put(arguments[index].substring(2), arguments[index + 1]);
        }
        Thread listener = new Thread(TransactionalCopier::endWithInput);
        listener.setDaemon(true);
        listener.start();
        try (var consumer = new KafkaConsumer<>(
                        consumerSettings(options), new ByteArrayDeserializer(), new ByteArrayDeserializer());
                var producer = new KafkaProducer<>(
                        producerSettings(options), new ByteArraySerializer(), new ByteArraySerializer())) {
            new TransactionalCopier(options, consumer, producer).run();
        }
    }

    private static void endWithInput() {
        try {
            while (System.in.read() >= 0) {
                // Only the end of the input matters
            }
        } catch (IOException broken) {
            // As good as an end
        }
        Runtime.getRuntime().halt(0);
    }

    private static Properties consumerSettings(Map<String, String> options) {
        Properties settings = common(options);
        settings.put("group.id", options.get("group"));
        settings.put("group.protocol", options.get("protocol"));
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", options.get("records"));
        if (options.get("protocol").equals("classic")) {
            settings.put("session.timeout.ms", options.get("session-ms"));
            settings.put("heartbeat.interval.ms", "200");
        }
        return settings;
    }

    private static Properties producerSettings(Map<String, String> options) {
        Properties settings = common(options);
        settings.put("transactional.id", options.get("id"));
        settings.put("transaction.timeout.ms", options.get("timeout-ms"));
        settings.put("batch.size", "512"); // so that a transaction has several requests in flight
        return settings;
    }

    private static Properties common(Map<String, String> options) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("reconnect.backoff.ms", "20");
        settings.put("reconnect.backoff.max.ms", "200");
        return settings;
    }

    private void run() throws InterruptedException {
        producer.initTransactions();
        consumer.subscribe(List.of(options.get("input")));
        while (true) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(WAIT);
            if (!records.isEmpty()) {
                copyOrStartAgain(records);
            }
        }
    }

    private void copyOrStartAgain(ConsumerRecords<byte[], byte[]> records) throws InterruptedException {
        try {
            copy(records);
        } catch (ProducerFencedException fenced) {
            System.err.println(fenced);
            Runtime.getRuntime().halt(3);
        }
    }

    /** One transaction; an aborted one is read again. */
    private void copy(ConsumerRecords<byte[], byte[]> records) throws InterruptedException {
        try {
            producer.beginTransaction();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(
                        options.get("output"), record.partition(), record.key(), transformed(record.value())));
            }
            Thread.sleep(Long.parseLong(options.get("pause-ms")));
            var positions = positions(records);
            producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
            if (chance.nextInt(Integer.parseInt(options.get("commits-an-abort"))) == 0) {
                abort(records);
            } else {
                producer.commitTransaction();
                OUTPUT.println("{\"committed\": " + text(positions) + "}");
            }
        } catch (ProducerFencedException fenced) {
            throw fenced;
        } catch (KafkaException failure) {
            System.err.println(failure);
            abort(records);
        }
    }

    private void abort(ConsumerRecords<byte[], byte[]> records) {
        producer.abortTransaction();
        for (TopicPartition partition : records.partitions()) {
            try {
                consumer.seek(partition, records.records(partition).get(0).offset());
            } catch (IllegalStateException revoked) {
                // A rebalance has taken the partition: its next owner reads from the committed offset
                System.err.println(revoked);
            }
        }
    }

    private static byte[] transformed(byte[] value) {
        return new String(value, StandardCharsets.US_ASCII)
                .toUpperCase(Locale.ROOT)
                .getBytes(StandardCharsets.US_ASCII);
    }

    private static Map<TopicPartition, OffsetAndMetadata> positions(ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            positions.put(
                    new TopicPartition(record.topic(), record.partition()),
                    new OffsetAndMetadata(record.offset() + 1, record.leaderEpoch(), ""));
        }
        return positions;
    }

    private static String text(Map<TopicPartition, OffsetAndMetadata> positions) {
        return positions.entrySet().stream()
                .map(entry -> "\"" + entry.getKey().partition() + "\": " + entry.getValue().offset())
                .collect(Collectors.joining(", ", "{", "}"));
    }
}
