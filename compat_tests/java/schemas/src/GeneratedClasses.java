import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Stream;

/**
 * The classes that Apache Kafka generates from its definitions of messages, asked over stdin and answered on stdout: which of
 * the jars on the class path is asked is up to whoever starts it. One line of JSON each, binary fields in base64:
 *
 * <pre>
 * {"message": "FetchRequest", "version": 12, "cases": [{"value": {...}, "bytes": "..."}, ...]}
 * {"headers": [2, 1], "answers": [{"written": "...", "read": {...}, "again": "..."}, ...]}
 * </pre>
 *
 * <p>"written" are the bytes of the value, "read" is the value of the bytes, and "again" are the bytes of what was read: a value
 * in JSON has no unknown tagged fields and of records only the size. A case may have no value; where a class refuses something, there is
 * an "error".
 * "headers" are the versions of the headers that go with requests and responses; there are none for what is neither.
 *
 * <p>{"refused": "...", "code": 29} instead of a case are the bytes of a request; "written" is what Kafka answers to it where it fails
 * as a whole with this error.
 */
public final class GeneratedClasses {
    private static final JsonMapper JSON = JsonMapper.builder()
        .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
        .disable(JsonWriteFeature.WRITE_NAN_AS_STRINGS)
        .build();

    private final Class<?> data;
    private final Method fromJson;
    private final Method toJson;
    private final short version;

    private GeneratedClasses(String message, short version) throws ReflectiveOperationException {
        this.data = generated(message);
        Class<?> converter = Class.forName(data.getName() + "JsonConverter");
        this.fromJson = converter.getMethod("read", JsonNode.class, short.class);
        this.toJson = converter.getMethod("write", data, short.class, boolean.class);
        this.version = version;
    }

    /** Requests, responses and headers are called Data; what clients put into bytes fields is not, and records are not. */
    private static Class<?> generated(String message) throws ClassNotFoundException {
        for (String name : List.of("common.message.%sData", "common.message.%s", "coordinator.group.generated.%s", "common.metadata.%s")) {
            try {
                return Class.forName("org.apache.kafka." + String.format(name, message));
            } catch (ClassNotFoundException absent) {
                continue;
            }
        }
        throw new ClassNotFoundException(message);
    }

    private void headers(ArrayNode versions) throws ReflectiveOperationException {
        short key = ((ApiMessage) data.getConstructor().newInstance()).apiKey();
        if (key >= 0 && data.getSimpleName().endsWith("Data")) { // a record has a key too, but no header
            ApiMessageType type = ApiMessageType.fromApiKey(key);
            versions.add(type.requestHeaderVersion(version)).add(type.responseHeaderVersion(version));
        }
    }

    private ObjectNode answer(JsonNode one) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            if (one.has("refused")) {
                return answer.put("written", bytes(refusal(one.get("refused").binaryValue(), one.get("code").intValue())));
            }
            if (one.has("value")) {
                answer.put("written", bytes((Message) fromJson.invoke(null, one.get("value"), version)));
            }
            Message read = read(one.get("bytes").binaryValue());
            answer.set("read", (JsonNode) toJson.invoke(null, read, version, false));
            answer.put("again", bytes(read));
        } catch (InvocationTargetException refused) {
            answer.put("error", String.valueOf(refused.getCause()));
        } catch (ReflectiveOperationException | IOException | RuntimeException fault) {
            answer.put("error", fault.toString());
        }
        return answer;
    }

    private Message read(byte[] bytes) throws ReflectiveOperationException {
        Message message = (Message) data.getConstructor().newInstance();
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes are left");
        }
        return message;
    }

    private Message refusal(byte[] bytes, int code) throws ReflectiveOperationException {
        short key = ((ApiMessage) data.getConstructor().newInstance()).apiKey();
        Method parse = Stream.of(AbstractRequest.class.getMethods())
            .filter(method -> method.getName().equals("parseRequest"))
            .findAny()
            .orElseThrow();
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Object body = parse.getParameterTypes()[2] == ByteBuffer.class ? buffer : new ByteBufferAccessor(buffer); // until Kafka 4.1
        Object parsed = parse.invoke(null, ApiKeys.forId(key), version, body);
        AbstractRequest request = (AbstractRequest) parsed.getClass().getField("request").get(parsed);
        return request.getErrorResponse(0, Errors.forCode((short) code).exception()).data();
    }

    private byte[] bytes(Message message) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("written with " + buffer.remaining() + " bytes less than its size");
        }
        return buffer.array();
    }

    private static String answers(JsonNode request) throws IOException, ReflectiveOperationException {
        String message = request.get("message").textValue();
        GeneratedClasses classes = new GeneratedClasses(message, (short) request.get("version").intValue());
        ObjectNode all = JSON.createObjectNode();
        classes.headers(all.putArray("headers"));
        ArrayNode answers = all.putArray("answers");
        for (JsonNode one : request.get("cases")) {
            answers.add(classes.answer(one));
        }
        return JSON.writeValueAsString(all);
    }

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answers(JSON.readTree(line)));
            out.flush();
        }
    }
}
