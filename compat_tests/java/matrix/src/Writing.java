import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The producer, which looks the same from 0.8.2 on; what a record carries came later. */
final class Writing {
    private Writing() {}

    /** A line without tabs is the codec of the records that follow, from a producer of their own. */
    static void run(String bootstrap, String topic, BufferedReader input) throws Exception {
        String line = input.readLine();
        while (line != null) {
            line = run(bootstrap, topic, line, input);
        }
    }

    /** Send what comes with one codec; the line that follows it, or null at the end. */
    private static String run(String bootstrap, String topic, String codec, BufferedReader input) throws Exception {
        Properties settings = new Properties();
        Settings.add(settings);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("compression.type", codec);
        // Several records in a batch, as it matters to codecs
        settings.put("linger.ms", "5");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        try (var producer = new KafkaProducer<byte[], byte[]>(settings)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            String line = input.readLine();
            for (; line != null && line.contains("\t"); line = input.readLine()) {
                sent.add(producer.send(record(topic, line.split("\t", -1))));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
            return line;
        }
    }

    static ProducerRecord<byte[], byte[]> record(String topic, String[] fields) {
        Integer partition = Integer.valueOf(fields[0]);
        byte[] key = Line.bytes(fields[2]);
        byte[] value = Line.bytes(fields[3]);
        if (Age.hasHeaders()) {
            return new ProducerRecord<>(topic, partition, Line.time(fields), key, value, headers(fields[4]));
        }
        if (Age.hasTimes()) {
            return new ProducerRecord<>(topic, partition, Line.time(fields), key, value);
        }
        return new ProducerRecord<>(topic, partition, key, value);
    }

    private static List<Header> headers(String text) {
        List<Header> found = new ArrayList<>();
        for (String pair : text.isEmpty() ? new String[0] : text.split(",")) {
            String[] sides = pair.split(":", -1);
            found.add(new RecordHeader(new String(Line.bytes(sides[0]), StandardCharsets.UTF_8), Line.bytes(sides[1])));
        }
        return found;
    }
}
