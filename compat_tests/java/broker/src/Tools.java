import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command-line tools, one after the other in one JVM: most of the time of such a command is the start of its JVM.
 *
 * <p>A line of standard input is a command: the tool's main class and its arguments, separated by tabs. It is answered by
 * one line: the exit status, then what the tool wrote to its two outputs, both in base64.
 *
 * <p>The program is compiled with the jars of Kafka 4.1, and runs with those of any Kafka. A tool of a Kafka without
 * `Exit` may end the JVM: the answer then has no status, the process has it.
 */
public final class Tools {
    /** Scala keeps the stream that it finds first: so there is one for all commands. */
    private static final class Taken extends OutputStream {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int one) {
            bytes.write(one);
        }

        @Override
        public synchronized void write(byte[] many, int offset, int length) {
            bytes.write(many, offset, length);
        }

        synchronized String all() {
            String encoded = Base64.getEncoder().encodeToString(bytes.toByteArray());
            bytes.reset();
            return encoded;
        }
    }

    private static volatile CompletableFuture<Integer> status;

    /** Apart, because an old Kafka has no such class. */
    private static final class Exits {
        private Exits() {}

        static void intercept() {
            Exit.setExitProcedure((code, message) -> end(code));
        }
    }

    private Tools() {}

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        Taken output = new Taken();
        Taken errors = new Taken();
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        try {
            Class.forName("org.apache.kafka.common.utils.Exit");
            Exits.intercept();
        } catch (ClassNotFoundException old) {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                if (status != null && !status.isDone()) {
                    answers.println("\t" + output.all() + "\t" + errors.all());
                }
            }));
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            status = new CompletableFuture<>();
            Thread thread = new Thread(() -> run(words), words[0]);
            thread.setDaemon(true);
            thread.start();
            answers.println(status.join() + "\t" + output.all() + "\t" + errors.all());
        }
    }

    /** A tool that asks for its end gets no further, as if the JVM had ended; an exception would meet its own handlers. */
    private static void end(int code) {
        status.complete(code);
        while (true) {
            LockSupport.park();
        }
    }

    private static void run(String[] words) {
        CompletableFuture<Integer> own = status;
        try {
            String[] arguments = Arrays.copyOfRange(words, 1, words.length);
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            own.complete(0);
        } catch (InvocationTargetException thrown) {
            thrown.getCause().printStackTrace();
            own.complete(-1);
        } catch (ReflectiveOperationException missing) {
            missing.printStackTrace();
            own.complete(-1);
        }
    }
}
