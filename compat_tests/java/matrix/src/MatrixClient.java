import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * One stock Java client of any version from 0.8.2 on, for one subcommand: see matrix/client.py. Records are the lines of
 * Line; `produce` is told its codecs among them. It is compiled once, against the newest of the versions that it runs with: what an older one lacks is not called.
 */
public final class MatrixClient {
    private MatrixClient() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int index = 1; index < arguments.length; index += 2) {
            options.put(arguments[index].substring(2), arguments[index + 1]);
        }
        String bootstrap = options.get("bootstrap");
        String topic = options.get("topic");
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        switch (arguments[0]) {
            case "produce" -> Writing.run(bootstrap, topic, input);
            case "read" -> {
                int count = Integer.parseInt(options.get("count"));
                read(bootstrap, topic, count, options.get("isolation"), output);
            }
            case "group" -> {
                int count = Integer.parseInt(options.get("count"));
                Reading.inGroup(bootstrap, topic, options.get("group"), count, options.get("protocol"), output);
            }
            case "transact" ->
                Transacting.run(bootstrap, topic, options.get("transactional-id"), options.get("group"), input);
            default -> throw new IllegalArgumentException("unknown subcommand " + arguments[0]);
        }
        output.flush();
    }

    private static void read(String bootstrap, String topic, int count, String isolation, PrintStream output)
            throws Exception {
        if (Age.hasScalaConsumer()) {
            ScalaReading.read(bootstrap, topic, count, output);
        } else {
            Reading.read(bootstrap, topic, count, isolation, output);
        }
    }
}
