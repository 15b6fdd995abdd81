import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Apache Kafka's own message formats, conversions and checks, asked over standard input: a question a line, an answer a
 * line. Bytes are in base 64. A record is "offset,timestamp,key,value", several are joined by ";"; "-" is null.
 *
 *   read BYTES                                                  -> "magic,codec,type:records", for each batch, joined by "|"
 *   build MAGIC CODEC TYPE BASE_OFFSET APPEND_TIME RECORDS      -> BYTES
 *   down MAGIC FIRST_OFFSET BYTES                               -> BYTES
 *   validate TYPE COMPACTED NOW BEFORE AFTER CODEC BYTES        -> BYTES; CODEC may be "producer"
 *   lookup TIMES BYTES                                          -> the first offset at or after each time, then the offset of
 *                                                                  the newest record, all joined by ","; -1 for none
 *
 * or "error CODE INDEXES MESSAGE", with the indexes of records that were refused. The jars are those of 3.9 or 4.1; 4.1 has
 * no `down`.
 */
public class MessageFormats {
    public static void main(String[] arguments) throws IOException {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            System.out.println(answer(line.split(" ", -1)));
            System.out.flush();
        }
    }

    private static String answer(String[] words) {
        try {
            return switch (words[0]) {
                case "read" -> read(records(words[1]));
                case "build" -> build(words);
                case "down" -> down(words);
                case "validate" -> validate(words);
                case "lookup" -> lookup(words[1].split(","), decoded(words[2]));
                default -> throw new IllegalArgumentException(words[0]);
            };
        } catch (RecordValidationException refusal) {
            String indexes = refusal.recordErrors().stream().map(e -> "" + e.batchIndex).collect(Collectors.joining(","));
            return error(refusal.invalidException(), indexes);
        } catch (InvocationTargetException call) {
            return error((Exception) call.getCause(), "");
        } catch (Exception refusal) {
            return error(refusal, "");
        }
    }

    private static String error(Exception error, String indexes) {
        String message = String.valueOf(error).replace('\n', ' ');
        return "error " + Errors.forException(error).code() + " " + indexes + " " + message;
    }

    private static String read(MemoryRecords records) {
        StringBuilder text = new StringBuilder();
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            text.append(text.length() == 0 ? "" : "|").append(batch.magic()).append(',');
            text.append(batch.compressionType().id).append(',').append(batch.timestampType().id).append(':');
            String separator = "";
            for (Record record : batch) {
                record.ensureValid();
                text.append(separator).append(record.offset()).append(',').append(record.timestamp());
                text.append(',').append(encoded(record.key())).append(',').append(encoded(record.value()));
                separator = ";";
            }
        }
        return text.toString();
    }

    private static String build(String[] words) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        TimestampType type = TimestampType.forName(words[3]);
        byte magic = Byte.parseByte(words[1]);
        MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, magic, compression(words[2]),
            magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : type, Long.parseLong(words[4]), Long.parseLong(words[5]));
        for (String record : words[6].split(";")) {
            String[] parts = record.split(",", -1);
            builder.appendWithOffset(Long.parseLong(parts[0]), magic == 0 ? -1 : Long.parseLong(parts[1]),
                decoded(parts[2]), decoded(parts[3]));
        }
        return encoded(builder.build().buffer());
    }

    private static String down(String[] words) throws Exception {
        Object converted = MemoryRecords.class.getMethod("downConvert", byte.class, long.class, Time.class)
            .invoke(records(words[3]), Byte.parseByte(words[1]), Long.parseLong(words[2]), Time.SYSTEM);
        return encoded(((MemoryRecords) converted.getClass().getMethod("records").invoke(converted)).buffer());
    }

    private static String validate(String[] words) throws Exception {
        long now = Long.parseLong(words[3]);
        MemoryRecords records = records(words[7]);
        CompressionType source = CompressionType.NONE;
        for (MutableRecordBatch batch : records.batches()) {  // what UnifiedLog does before it asks the validator
            batch.ensureValid();
            source = batch.compressionType() == CompressionType.NONE ? source : batch.compressionType();
        }
        Compression target = words[6].equals("producer") ? Compression.of(source).build() : compression(words[6]);
        List<Object> values = new ArrayList<>(Arrays.asList(records, new TopicPartition("t", 0), fixed(now), source, target,
            Boolean.parseBoolean(words[2]), RecordBatch.MAGIC_VALUE_V2, TimestampType.forName(words[1]),
            Long.parseLong(words[4]), Long.parseLong(words[5]), 0, AppendOrigin.CLIENT));
        Constructor<?> constructor = LogValidator.class.getConstructors()[0];
        if (constructor.getParameterCount() > values.size()) {  // until 3.9
            values.add(MetadataVersion.latestProduction());
        }
        LogValidator validator = (LogValidator) constructor.newInstance(values.toArray());
        return encoded(validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), new Silent(),
            BufferSupplier.NO_CACHING).validatedRecords.buffer());
    }

    /** What ListOffsets answers for a segment with these batches; the rest of a broker only chooses the segment. */
    private static String lookup(String[] times, byte[] batches) throws IOException {
        File file = File.createTempFile("lookup", ".log");
        try (FileRecords records = FileRecords.open(file)) {
            records.append(MemoryRecords.readableRecords(ByteBuffer.wrap(batches)));
            List<String> offsets = new ArrayList<>();
            for (String time : times) {
                FileRecords.TimestampAndOffset found = records.searchForTimestamp(Long.parseLong(time), 0, 0);
                offsets.add(found == null ? "-1" : "" + found.offset);
            }
            RecordBatch newest = null;
            for (RecordBatch batch : records.batches()) {
                if (batch.maxTimestamp() > (newest == null ? -1 : newest.maxTimestamp())) {
                    newest = batch;
                }
            }
            offsets.add(newest == null ? "-1" : "" + newest.offsetOfMaxTimestamp().orElse(-1L));
            return String.join(",", offsets);
        } finally {
            file.delete();
        }
    }

    private static Compression compression(String id) {
        return Compression.of(CompressionType.forId(Integer.parseInt(id))).build();
    }

    private static MemoryRecords records(String text) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(decoded(text)));
    }

    private static byte[] decoded(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    private static String encoded(ByteBuffer bytes) {
        if (bytes == null) {
            return "-";
        }
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return Base64.getEncoder().encodeToString(copy);
    }

    private static Time fixed(long now) {
        return (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> method.getName().equals("milliseconds") ? now : method.invoke(Time.SYSTEM, arguments));
    }

    private static final class Silent implements LogValidator.MetricsRecorder {
        @Override
        public void recordInvalidMagic() {}

        @Override
        public void recordInvalidOffset() {}

        @Override
        public void recordInvalidSequence() {}

        @Override
        public void recordInvalidChecksums() {}

        @Override
        public void recordNoKeyCompactedTopic() {}
    }
}
