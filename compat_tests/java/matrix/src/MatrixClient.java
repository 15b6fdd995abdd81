import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.Reader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * One stock Java client of any version from 0.8.2 on, for one subcommand: see matrix/client.py. Records are the lines of
 * Line; `produce` is told its codecs among them. It is compiled once, against the newest of the versions that it runs with: what an older one lacks is not called.
 */
public final class MatrixClient {
    private MatrixClient() {}

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        if (arguments[0].equals("each")) {
            runEach(input, output);
        } else {
            run(arguments, input, output);
        }
        output.flush();
    }

    /**
     * Subcommands in one JVM, each a line of fields separated by tabs: a file of settings, a file with the lines for
     * its input, or "-", and the arguments. After each comes the line "done", or "error" and the failure.
     */
    private static void runEach(BufferedReader commands, PrintStream output) throws Exception {
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] fields = line.split("\t", -1);
            Settings.path = fields[0];
            Reader source = fields[1].equals("-") ? Reader.nullReader() : Files.newBufferedReader(Path.of(fields[1]));
            try (var input = new BufferedReader(source)) {
                run(Arrays.copyOfRange(fields, 2, fields.length), input, output);
                output.println("done");
            } catch (Exception failure) {
                var text = new StringWriter();
                failure.printStackTrace(new PrintWriter(text));
                output.println("error\t" + text.toString().replace('\n', ' '));
            }
            output.flush();
        }
    }

    private static void run(String[] arguments, BufferedReader input, PrintStream output) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int index = 1; index < arguments.length; index += 2) {
            options.put(arguments[index].substring(2), arguments[index + 1]);
        }
        String bootstrap = options.get("bootstrap");
        String topic = options.get("topic");
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
