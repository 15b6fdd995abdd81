import java.util.*;
import java.nio.file.*;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.security.kerberos.*;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.config.types.Password;
import javax.security.auth.login.AppConfigurationEntry;

/**
 * The answers of Kafka about names of Kerberos and about JAAS lines. Each line of the file of the first argument is a
 * question, its texts in hexadecimal digits of UTF-8 (gateway/security/sasl/tests/text_scenario.py writes it); the file of
 * the second argument gets the answers.
 */
public class SecurityAnswers {
    static String text(String hex) { byte[] b = HexFormat.of().parseHex(hex); return new String(b, StandardCharsets.UTF_8); }
    static String hex(String s) { return HexFormat.of().formatHex(s.getBytes(StandardCharsets.UTF_8)); }
    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] f = line.split("\t", -1);
            String answer;
            try {
                if (f[0].equals("name")) {
                    List<String> rules = new ArrayList<>();
                    for (String r : f[3].split(",")) rules.add(text(r));
                    answer = "=" + hex(KerberosShortNamer.fromUnparsedRules(text(f[1]), rules).shortName(KerberosName.parse(text(f[2]))));
                } else {
                    JaasContext c = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text(f[1]))));
                    AppConfigurationEntry e = c.configurationEntries().get(0);
                    StringBuilder b = new StringBuilder("=" + hex(e.getLoginModuleName()) + "," + e.getControlFlag().toString().replaceAll(".*: ", ""));
                    for (Map.Entry<String, ?> o : new TreeMap<String, Object>(e.getOptions()).entrySet()) b.append("," + hex(o.getKey()) + "," + hex((String) o.getValue()));
                    answer = b.toString();
                }
            } catch (Throwable e) { answer = "!" + e.getClass().getSimpleName(); }
            out.append(line).append("\t").append(answer).append("\n");
        }
        Files.writeString(Path.of(args[1]), out.toString());
    }
}
