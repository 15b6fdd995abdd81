import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.config.ConfigTransformer;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.config.provider.DirectoryConfigProvider;
import org.apache.kafka.common.config.provider.EnvVarConfigProvider;
import org.apache.kafka.common.config.provider.FileConfigProvider;

/**
 * Values with variables, as Kafka's providers of configs resolve them: see gateway/config/providers/tests/scenario.py.
 *
 * Questions are lines on stdin: `file`, `directory` or `env`, the parameter of the provider and the value, these two in
 * hexadecimal. An answer is a line that begins with `answer `, then `=` and the value, or `!` and the exception's name,
 * in hexadecimal. The provider is `x` in the values.
 */
public class ConfigProviders {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] question = line.split(" ", -1);
            System.out.println("answer " + answer(question[0], text(question[1]), text(question[2])));
        }
    }

    private static String answer(String kind, String parameter, String value) {
        try (ConfigProvider provider = provider(kind)) {
            Map<String, String> parameters = new HashMap<>();
            if (!parameter.isEmpty()) {
                parameters.put(kind.equals("env") ? "allowlist.pattern" : "allowed.paths", parameter);
            }
            provider.configure(parameters);
            return "=" + hex(new ConfigTransformer(Map.of("x", provider)).transform(Map.of("k", value)).data().get("k"));
        } catch (Exception problem) {
            return "!" + hex(problem.getClass().getSimpleName());
        }
    }

    private static ConfigProvider provider(String kind) {
        return switch (kind) {
            case "file" -> new FileConfigProvider();
            case "directory" -> new DirectoryConfigProvider();
            default -> new EnvVarConfigProvider();
        };
    }

    private static String text(String hex) {
        return new String(HEX.parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        return HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
