import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic to another one in transactions, for ever: bootstrap, source, target, timeout in ms. The source is also
 * the name of the group and of the transactional id. See compat_tests/copying.py.
 */
public final class Copier {
    private static final int PARTITIONS = 2;

    private Copier() {}

    public static void main(String[] arguments) {
        while (true) {
            try {
                copy(arguments[0], arguments[1], arguments[2], arguments[3]);
            } catch (KafkaException error) {
                System.out.println("anew " + error.getClass().getSimpleName());
            }
        }
    }

    private static Properties properties(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("reconnect.backoff.max.ms", "200");
        return properties;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String group) {
        Properties properties = properties(bootstrap);
        properties.put("group.id", group);
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("max.poll.records", "20");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id, String timeoutMs) {
        Properties properties = properties(bootstrap);
        properties.put("transactional.id", id);
        properties.put("transaction.timeout.ms", timeoutMs);
        properties.put("delivery.timeout.ms", timeoutMs);
        properties.put("request.timeout.ms", "1000");
        properties.put("linger.ms", "0");
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void copy(String bootstrap, String source, String target, String timeoutMs) {
        List<TopicPartition> partitions =
                List.of(new TopicPartition(source, 0), new TopicPartition(source, PARTITIONS - 1));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, source);
                KafkaProducer<byte[], byte[]> producer = producer(bootstrap, source, timeoutMs)) {
            producer.initTransactions();
            consumer.assign(partitions);
            Map<TopicPartition, OffsetAndMetadata> committed =
                    consumer.committed(Set.copyOf(partitions), Duration.ofSeconds(30));
            Map<TopicPartition, Long> positions = new java.util.HashMap<>();
            for (TopicPartition partition : partitions) {
                OffsetAndMetadata offset = committed.get(partition);
                positions.put(partition, offset == null ? 0L : offset.offset());
                consumer.seek(partition, positions.get(partition));
            }
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (!records.isEmpty()) {
                    commit(consumer, producer, records, positions, target);
                }
            }
        }
    }

    private static void commit(
            KafkaConsumer<byte[], byte[]> consumer,
            KafkaProducer<byte[], byte[]> producer,
            ConsumerRecords<byte[], byte[]> records,
            Map<TopicPartition, Long> positions,
            String target) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new java.util.HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            positions.put(partition, record.offset() + 1);
            offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
        System.out.println("committed " + records.count());
    }
}
