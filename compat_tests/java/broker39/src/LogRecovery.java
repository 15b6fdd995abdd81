import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.TxnIndexSearchResult;

/**
 * What Apache Kafka's own recovery makes of the .log files of partitions' directories: it writes .index, .timeindex,
 * .txnindex beside each, and .snapshot files where segments begin, and at the end.
 *
 *   LogRecovery INDEX_INTERVAL_BYTES STEP DIRECTORY...
 *
 * A line for each directory: where the first open transaction begins (-1: nowhere), then for each start and each end of
 * ranges whose bounds are STEP offsets apart "start-end:producer/first,...", the aborted transactions that a fetch is told.
 */
public class LogRecovery {
    public static void main(String[] arguments) throws IOException {
        int step = Integer.parseInt(arguments[1]);
        LogConfig config = new LogConfig(Map.of("index.interval.bytes", arguments[0]));
        for (String path : Arrays.asList(arguments).subList(2, arguments.length)) {
            System.out.println(recover(new File(path), config, step));
        }
    }

    private static String recover(File directory, LogConfig config, int step) throws IOException {
        ProducerStateManager producers = new ProducerStateManager(new TopicPartition("t", 0), directory, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), Time.SYSTEM);
        List<LogSegment> segments = new ArrayList<>();
        long[] bases = Arrays.stream(directory.list()).filter(name -> name.endsWith(".log"))
            .mapToLong(name -> Long.parseLong(name.substring(0, 20))).sorted().toArray();
        for (long base : bases) {
            producers.updateMapEndOffset(base);
            producers.takeSnapshot();
            LogSegment segment = LogSegment.open(directory, base, config, Time.SYSTEM, true, 0, false, "");
            segment.recover(producers, Optional.empty());
            segments.add(segment);
        }
        producers.takeSnapshot();
        long end = segments.get(segments.size() - 1).readNextOffset();
        StringBuilder told = new StringBuilder().append(producers.firstUndecidedOffset().orElse(-1));
        long[] bounds = LongStream.iterate(0, bound -> bound <= end, bound -> bound + step).toArray();
        for (long from : bounds) {
            for (long to : bounds) {
                if (from < to) {
                    told.append(' ').append(from).append('-').append(to).append(':').append(aborted(segments, from, to));
                }
            }
        }
        for (LogSegment segment : segments) {
            segment.close();
        }
        return told.toString();
    }

    private static String aborted(List<LogSegment> segments, long from, long to) {
        List<String> found = new ArrayList<>();
        for (int number = 0; number < segments.size(); number++) {
            if (number + 1 < segments.size() && segments.get(number + 1).baseOffset() <= from) {
                continue;
            }
            TxnIndexSearchResult result = segments.get(number).collectAbortedTxns(from, to);
            result.abortedTransactions.forEach(one -> found.add(one.producerId() + "/" + one.firstOffset()));
            if (result.isComplete) {
                break;
            }
        }
        return found.stream().collect(Collectors.joining(","));
    }
}
