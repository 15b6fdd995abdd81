import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts words with exactly_once_v2: each word of a line, by way of a topic that gathers equal words, raises its count,
 * and every new count is written out. It runs until the end of standard input, and prints "running" once it does.
 *
 * <pre>
 *   WordCount bootstrap input output directory name=value ...     more settings
 * </pre>
 */
public final class WordCount {
    private static final Duration LIMIT = Duration.ofSeconds(30);

    private WordCount() {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("application.id", "word-count-" + arguments[1]);
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[3]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "2");
        // No count is left out because a later one came soon
        settings.put("statestore.cache.max.bytes", "0");
        for (String setting : List.of(arguments).subList(4, arguments.length)) {
            String[] sides = setting.split("=", 2);
            settings.put(sides[0], sides[1]);
        }
        var streams = new KafkaStreams(counting(arguments[1], arguments[2]), settings);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("running");
            }
        });
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (System.in.read() >= 0) {}
        System.exit(streams.close(LIMIT) ? 0 : 1);
    }

    private static Topology counting(String input, String output) {
        var builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }
}
