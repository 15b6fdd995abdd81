import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import javax.net.ssl.SSLEngine;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/**
 * What Kafka says of TLS settings and stores when a listener starts.
 *
 * Questions are lines on stdin: settings `name=value`, separated by tabs; a value that begins with `@` is in that file.
 * An answer is a line: `ok` and the protocols, or the innermost exception. With the jars of a Kafka on the class path:
 * java -cp 'build/jars/broker/*' SslStores.java
 */
public class SslStores {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("= " + answer(new AbstractConfig(definitions(), settings(line.split("\t"))) { }));
        }
    }

    private static ConfigDef definitions() {
        ConfigDef definitions = new ConfigDef();
        SslConfigs.addClientSslSupport(definitions);
        return definitions.define("ssl.client.auth", ConfigDef.Type.STRING, "none", ConfigDef.Importance.LOW, "");
    }

    private static Map<String, Object> settings(String[] pairs) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        for (String pair : pairs) {
            String[] parts = pair.split("=", 2);
            if (parts.length == 2) {
                boolean isFile = parts[1].startsWith("@");
                settings.put(parts[0], isFile ? Files.readString(Path.of(parts[1].substring(1))) : parts[1]);
            }
        }
        return settings;
    }

    private static String answer(AbstractConfig config) {
        try (DefaultSslEngineFactory factory = new DefaultSslEngineFactory()) {
            factory.configure(config.values());
            SSLEngine engine = factory.createServerSslEngine("localhost", 9092);
            engine.beginHandshake();
            return "ok " + Arrays.toString(engine.getEnabledProtocols());
        } catch (Throwable problem) {
            while (problem.getCause() != null) {
                problem = problem.getCause();
            }
            return (problem.getClass().getSimpleName() + ": " + problem.getMessage()).replace('\n', ' ');
        }
    }
}
