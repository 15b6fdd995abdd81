import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/**
 * A record as fields between tabs. Sent: partition time key value headers; received: the offset after the partition.
 * Bytes are base64, null is "-", headers are name:value with commas between.
 */
final class Line {
    private static final int TIME = 1;

    private Line() {}

    static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    static Long time(String[] fields) {
        return fields[TIME].equals("-") ? null : Long.valueOf(fields[TIME]);
    }

    static String received(
            int partition, long offset, long time, byte[] key, byte[] value, List<Map.Entry<byte[], byte[]>> headers) {
        List<String> pairs = headers.stream().map(pair -> text(pair.getKey()) + ":" + text(pair.getValue())).toList();
        return partition + "\t" + offset + "\t" + time + "\t" + text(key) + "\t" + text(value) + "\t"
                + String.join(",", pairs);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }
}
