import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Workers of a history: each reads a topic and writes to it in transactions and without, until the end of the standard
 * input. The events of their operations are the lines of the output; histories/history.py describes them.
 *
 * <pre>
 *   HistoryWorker bootstrap topic partitions seed workers transaction-timeout-ms
 * </pre>
 */
public final class HistoryWorker implements Runnable {
    private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(20);
    private static final int ATTEMPTS = 10;
    private static final int PAUSE_MS = 30;
    /** The broker refuses a record with this value for good. */
    private static final String TOO_LARGE = ".".repeat(1000);
    private static volatile boolean isEnding;

    private final String[] options;
    private final String name;
    private final int partitions;
    private final Random chance;
    private final Map<Integer, Long> positions = new TreeMap<>();
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> plain;
    private KafkaProducer<String, String> producer;
    private int operation;
    private int values;

    private record Sent(int partition, String value, Future<RecordMetadata> answer) {}

    private HistoryWorker(String[] options, int number) {
        this.options = options;
        this.name = "java-" + number;
        this.partitions = Integer.parseInt(options[2]);
        this.chance = new Random(31L * Long.parseLong(options[3]) + number);
        Properties reading = settings("reader");
        reading.put("group.id", groupId());
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        reading.put("fetch.max.wait.ms", "100");
        this.consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        this.plain = new KafkaProducer<>(writing("plain"), new StringSerializer(), new StringSerializer());
    }

    public static void main(String[] options) throws IOException, InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(options[4]); number++) {
            threads.add(new Thread(new HistoryWorker(options, number)));
        }
        threads.forEach(Thread::start);
        while (System.in.read() >= 0) {
            // Only the end of the input matters
        }
        isEnding = true;
        for (Thread thread : threads) {
            thread.join();
        }
        Runtime.getRuntime().halt(0);
    }

    private String groupId() {
        return "group-" + name;
    }

    private Properties settings(String role) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options[0]);
        settings.put("client.id", name + "-" + role);
        settings.put("request.timeout.ms", "10000");
        settings.put("reconnect.backoff.ms", "20");
        settings.put("reconnect.backoff.max.ms", "200");
        return settings;
    }

    /** Batches of a larger size are split without end when a broker refuses them: the parts are as large. */
    private Properties writing(String role) {
        Properties settings = settings(role);
        settings.put("batch.size", String.valueOf(TOO_LARGE.length()));
        return settings;
    }

    @Override
    public void run() {
        try {
            for (int partition = 0; partition < partitions; partition++) {
                positions.put(partition, 0L);
            }
            consumer.assign(positions.keySet().stream().map(this::at).toList());
            seek(positions);
            while (!isEnding) {
                Thread.sleep(chance.nextInt(PAUSE_MS));
                int kind = chance.nextInt(10);
                if (kind == 0) {
                    poll();
                } else if (kind == 1) {
                    askCommitted();
                } else if (kind < 4) {
                    send();
                } else {
                    transaction();
                }
            }
            askCommitted();
        } catch (RuntimeException | InterruptedException failure) {
            failure.printStackTrace();
            Runtime.getRuntime().halt(4);
        }
    }

    private TopicPartition at(int partition) {
        return new TopicPartition(options[1], partition);
    }

    private void seek(Map<Integer, Long> wanted) {
        operation++;
        say("invoke", "assign", "");
        wanted.forEach((partition, offset) -> consumer.seek(at(partition), offset));
        positions.putAll(wanted);
        say("ok", "assign", ", \"offsets\": " + offsets(wanted));
    }

    private void poll() {
        operation++;
        say("invoke", "poll", "");
        say("ok", "poll", ", \"reads\": " + read(100));
    }

    /** Records of one poll; the positions follow. */
    private String read(int waitMs) {
        List<String> found = new ArrayList<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(waitMs))) {
            found.add("[" + key(record.partition()) + ", " + record.offset() + ", \"" + record.value() + "\"]");
            positions.put(record.partition(), record.offset() + 1);
        }
        return found.toString();
    }

    private void askCommitted() {
        operation++;
        String head = ", \"group\": \"" + groupId() + "\"";
        say("invoke", "committed", head);
        try {
            Map<Integer, Long> found = new TreeMap<>();
            consumer.committed(positions.keySet().stream().map(this::at).collect(Collectors.toSet()), ANSWER_LIMIT)
                    .forEach((at, offset) -> {
                        if (offset != null) {
                            found.put(at.partition(), offset.offset());
                        }
                    });
            say("ok", "committed", head + ", \"offsets\": " + offsets(found));
        } catch (KafkaException failure) {
            say("info", "committed", text(failure));
        }
    }

    private void send() throws InterruptedException {
        List<Sent> sent = planned();
        if (chance.nextInt(10) == 0) {
            sent.add(new Sent(chance.nextInt(partitions), name + "-" + values++ + "-" + TOO_LARGE, null));
        }
        operation++;
        say("invoke", "send", ", \"writes\": " + writes(sent));
        List<Sent> answers = new ArrayList<>();
        sent.forEach(one -> answers.add(sendTo(plain, one)));
        plain.flush();
        String written = writes(answers);
        say(written.contains("info") ? "info" : "ok", "send", ", \"writes\": " + written);
    }

    private List<Sent> planned() {
        List<Sent> planned = new ArrayList<>();
        for (int count = 1 + chance.nextInt(4); count > 0; count--) {
            planned.add(new Sent(chance.nextInt(partitions), name + "-" + values++, null));
        }
        return planned;
    }

    private Sent sendTo(KafkaProducer<String, String> target, Sent one) {
        var record = new ProducerRecord<>(options[1], one.partition(), (String) null, one.value());
        return new Sent(one.partition(), one.value(), target.send(record));
    }

    private void transaction() throws InterruptedException {
        List<Sent> planned = planned();
        Map<Integer, Long> before = new TreeMap<>(positions);
        operation++;
        say("invoke", "transaction", ", \"writes\": " + writes(planned));
        List<Sent> answers = new ArrayList<>();
        StringBuilder rest = new StringBuilder();
        String outcome;
        try {
            outcome = attempt(planned, answers, before, rest);
        } catch (KafkaException failure) {
            rest.append(text(failure));
            outcome = abort();
        }
        String written = writes(answers.size() == planned.size() ? answers : planned);
        say(outcome, "transaction", ", \"writes\": " + written + rest);
        if (!outcome.equals("ok")) {
            seek(before);
        }
    }

    /** The outcome of a transaction that nothing disturbs. */
    private String attempt(List<Sent> planned, List<Sent> answers, Map<Integer, Long> before, StringBuilder rest)
            throws InterruptedException {
        begin();
        int half = planned.size() / 2;
        planned.subList(0, half).forEach(one -> answers.add(sendTo(producer, one)));
        rest.append(", \"reads\": ").append(read(20));
        planned.subList(half, planned.size()).forEach(one -> answers.add(sendTo(producer, one)));
        Map<Integer, Long> moved = new TreeMap<>(positions);
        moved.entrySet().removeIf(entry -> entry.getValue().equals(before.get(entry.getKey())));
        if (!moved.isEmpty() && chance.nextBoolean()) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            moved.forEach((partition, offset) -> offsets.put(at(partition), new OffsetAndMetadata(offset)));
            rest.append(", \"group\": \"" + groupId() + "\", \"offsets\": " + offsets(moved));
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        }
        if (chance.nextInt(4) == 0) {
            producer.abortTransaction();
            return "fail";
        }
        rest.append(", \"decided_ns\": " + System.nanoTime());
        commit();
        return "ok";
    }

    private void begin() {
        if (producer == null) {
            Properties settings = writing("producer");
            settings.put("transactional.id", name + "-" + options[1]);
            settings.put("transaction.timeout.ms", options[5]);
            var made = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            try {
                made.initTransactions();
            } catch (KafkaException failure) {
                made.close(Duration.ZERO);
                throw failure;
            }
            producer = made;
        }
        producer.beginTransaction();
    }

    private void commit() {
        for (int attempt = 1; ; attempt++) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException failure) {
                if (attempt == ATTEMPTS) {
                    throw failure;
                }
            }
        }
    }

    /** A producer that cannot abort is given up: the next one with its transactional id ends the transaction. */
    private String abort() {
        if (producer == null) {
            return "fail";
        }
        try {
            producer.abortTransaction();
            return "fail";
        } catch (KafkaException | IllegalStateException failure) {
            // Illegal after a commit that timed out
            producer.close(Duration.ZERO);
            producer = null;
            return "info";
        }
    }

    private void say(String type, String kind, String rest) {
        OUTPUT.println("{\"type\": \"" + type + "\", \"kind\": \"" + kind + "\", \"process\": \"" + name
                + "\", \"operation\": " + operation + ", \"time_ns\": " + System.nanoTime() + rest + "}");
    }

    private String text(Exception failure) {
        return ", \"text\": \"" + failure.toString().replaceAll("[\"\\\\\\n]", "'") + "\"";
    }

    private String key(int partition) {
        return "\"" + options[1] + "-" + partition + "\"";
    }

    private String offsets(Map<Integer, Long> offsets) {
        return offsets.entrySet().stream()
                .map(entry -> key(entry.getKey()) + ": " + entry.getValue())
                .collect(Collectors.joining(", ", "{", "}"));
    }

    /** Once a producer has flushed, committed or aborted, each of its sends is answered. */
    private String writes(List<Sent> sent) throws InterruptedException {
        List<String> found = new ArrayList<>();
        for (Sent one : sent) {
            String told = "null, \"info\"";
            if (one.answer() != null && one.answer().isDone()) {
                try {
                    RecordMetadata answer = one.answer().get();
                    told = (answer.hasOffset() ? String.valueOf(answer.offset()) : "null") + ", \"ok\"";
                } catch (ExecutionException failure) {
                    // After any other failure a broker may have the record
                    told = failure.getCause() instanceof RecordTooLargeException ? "null, \"fail\"" : told;
                }
            }
            found.add("[" + key(one.partition()) + ", \"" + one.value() + "\", " + told + "]");
        }
        return found.toString();
    }
}
