import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionType;
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
 *
 * or "error CODE INDEXES MESSAGE", with the indexes of records that were refused.
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
                default -> throw new IllegalArgumentException(words[0]);
            };
        } catch (RecordValidationException refusal) {
            String indexes = refusal.recordErrors().stream().map(e -> "" + e.batchIndex).collect(Collectors.joining(","));
            return error(refusal.invalidException(), indexes);
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

    private static String down(String[] words) {
        byte magic = Byte.parseByte(words[1]);
        return encoded(records(words[3]).downConvert(magic, Long.parseLong(words[2]), Time.SYSTEM).records().buffer());
    }

    private static String validate(String[] words) {
        long now = Long.parseLong(words[3]);
        MemoryRecords records = records(words[7]);
        CompressionType source = CompressionType.NONE;
        for (MutableRecordBatch batch : records.batches()) {  // what UnifiedLog does before it asks the validator
            batch.ensureValid();
            source = batch.compressionType() == CompressionType.NONE ? source : batch.compressionType();
        }
        Compression target = words[6].equals("producer") ? Compression.of(source).build() : compression(words[6]);
        LogValidator validator = new LogValidator(records, new TopicPartition("t", 0), fixed(now), source, target,
            Boolean.parseBoolean(words[2]), RecordBatch.MAGIC_VALUE_V2, TimestampType.forName(words[1]),
            Long.parseLong(words[4]), Long.parseLong(words[5]), 0, AppendOrigin.CLIENT, MetadataVersion.latestProduction());
        return encoded(validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), new Silent(),
            BufferSupplier.NO_CACHING).validatedRecords.buffer());
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
