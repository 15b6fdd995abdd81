import java.io.PrintStream;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The consumer from 0.9 on. */
final class Reading {
    private static final Duration STEP = Duration.ofMillis(100);
    // A member stays for some heartbeats
    private static final Duration STAY = Duration.ofMillis(350);
    private static final Duration HEARTBEAT = Duration.ofMillis(100);

    private Reading() {}

    /** `isolation` is null where the client has its default. */
    static void read(String bootstrap, String topic, int count, String isolation, PrintStream output)
            throws Exception {
        Properties settings = new Properties();
        if (isolation != null) {
            settings.put("isolation.level", isolation);
        }
        try (var consumer = consumer(bootstrap, settings)) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(one -> partitions.add(new TopicPartition(topic, one.partition())));
            with(consumer, "assign", partitions);
            with(consumer, "seekToBeginning", partitions);
            print(consumer, count, output);
        }
    }

    static void inGroup(String bootstrap, String topic, String group, int count, String protocol, PrintStream output)
            throws Exception {
        Properties settings = new Properties();
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        if (protocol == null) {
            settings.put("heartbeat.interval.ms", String.valueOf(HEARTBEAT.toMillis()));
        } else {
            settings.put("group.protocol", protocol);
        }
        try (var consumer = consumer(bootstrap, settings)) {
            with(consumer, "subscribe", List.of(topic));
            print(consumer, count, output);
            for (long end = System.nanoTime() + STAY.toNanos(); System.nanoTime() < end; ) {
                if (!poll(consumer).isEmpty()) {
                    throw new IllegalStateException("more came than there is");
                }
            }
            consumer.commitSync();
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, Properties settings) {
        Settings.add(settings);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return new KafkaConsumer<>(settings);
    }

    private static void print(KafkaConsumer<byte[], byte[]> consumer, int count, PrintStream output) {
        long deadline = System.nanoTime() + Age.LIMIT.toNanos();
        int left = count;
        while (left > 0) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(left + " records did not come");
            }
            for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                output.println(line(record));
                left -= 1;
            }
        }
    }

    @SuppressWarnings("deprecation") // the only one that there was before 2.0
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) {
        return Age.pollsDurations() ? consumer.poll(STEP) : consumer.poll(STEP.toMillis());
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        long time = Age.hasTimes() ? record.timestamp() : -1;
        List<Map.Entry<byte[], byte[]>> headers = new ArrayList<>();
        if (Age.hasHeaders()) {
            for (Header header : record.headers()) {
                byte[] name = header.key().getBytes(StandardCharsets.UTF_8);
                headers.add(new java.util.AbstractMap.SimpleEntry<>(name, header.value()));
            }
        }
        return Line.received(record.partition(), record.offset(), time, record.key(), record.value(), headers);
    }

    /** Call what takes a Collection today, and took a List or an array in 0.9 (KIP-45). */
    private static void with(KafkaConsumer<?, ?> consumer, String name, List<?> items) throws Exception {
        for (Method method : consumer.getClass().getMethods()) {
            Class<?>[] types = method.getParameterTypes();
            if (method.getName().equals(name) && types.length == 1) {
                if (types[0] == Collection.class || types[0] == List.class) {
                    method.invoke(consumer, items);
                    return;
                }
                if (types[0].isArray()) {
                    Object array = items.toArray((Object[]) Array.newInstance(types[0].getComponentType(), 0));
                    method.invoke(consumer, array);
                    return;
                }
            }
        }
        throw new NoSuchMethodException(name);
    }
}
