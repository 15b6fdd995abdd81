import java.io.BufferedReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The transactional producer, from 0.11 on. A line "commit" or "abort" ends the transaction of the records before it. */
final class Transacting {
    private Transacting() {}

    static void run(String bootstrap, String topic, String id, String group, BufferedReader input) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        try (var producer = new KafkaProducer<byte[], byte[]>(settings)) {
            producer.initTransactions();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            long offset = 0;
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                if (line.contains("\t")) {
                    if (sent.isEmpty()) {
                        producer.beginTransaction();
                    }
                    sent.add(producer.send(Writing.record(topic, line.split("\t", -1))));
                } else {
                    for (Future<RecordMetadata> one : sent) {
                        one.get();
                    }
                    offset += sent.size();
                    sent.clear();
                    commit(producer, Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(offset)), group);
                    end(producer, line);
                }
            }
        }
    }

    private static void end(KafkaProducer<byte[], byte[]> producer, String how) {
        switch (how) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException("unknown end of a transaction " + how);
        }
    }

    @SuppressWarnings("deprecation") // the only one that there was before 2.5, and is no more in 4.0
    private static void commit(
            KafkaProducer<byte[], byte[]> producer, Map<TopicPartition, OffsetAndMetadata> offsets, String group) {
        if (Age.hasGroupMetadata()) {
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(group));
        } else {
            producer.sendOffsetsToTransaction(offsets, group);
        }
    }
}
