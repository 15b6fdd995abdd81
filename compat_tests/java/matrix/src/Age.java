import java.time.Duration;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** What the client on the class path has, told by its classes and methods. */
final class Age {
    /** How long a subcommand may wait for its records. */
    static final Duration LIMIT = Duration.ofSeconds(60);

    private Age() {}

    /** Kafka 0.8: the consumer is part of the broker's jar. */
    static boolean hasScalaConsumer() {
        return hasClass("kafka.javaapi.consumer.SimpleConsumer");
    }

    /** Kafka 0.10: a record has a time (KIP-32). */
    static boolean hasTimes() {
        return hasMethod(ProducerRecord.class, "timestamp");
    }

    /** Kafka 0.11: a record has headers (KIP-82). */
    static boolean hasHeaders() {
        return hasMethod(ProducerRecord.class, "headers");
    }

    /** Kafka 2.0: a poll takes a Duration (KIP-266). */
    static boolean pollsDurations() {
        return hasMethod(KafkaConsumer.class, "poll", Duration.class);
    }

    /** Kafka 2.5: offsets in a transaction are sent with what is known of the group (KIP-447). */
    static boolean hasGroupMetadata() {
        return hasClass("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
    }

    private static boolean hasClass(String name) {
        try {
            Class.forName(name);
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    private static boolean hasMethod(Class<?> type, String name, Class<?>... parameters) {
        try {
            type.getMethod(name, parameters);
            return true;
        } catch (NoSuchMethodException absent) {
            return false;
        }
    }
}
